// What the host texts of the primitives stand on: one launch at a time, run on
// cooperative fibres, one a thread of each live block. The next fibre to run is
// drawn from a seeded generator at every barrier, atomic, fence and fresh load.
// From time to time, and often after an atomic, one block is held back: others then
// meet what a thread announced before the rest of its block did its part, which fair
// draws would hardly ever show.
//
// A fault ends the launch at once. Fibres then in flight are dropped where they
// stand: bodies own nothing that would have to be destroyed.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

namespace rl_host {

enum FaultKind : std::uint32_t {
    NO_FAULT,
    MISALIGNED,        // address, bytes
    LOAD_OUTSIDE,      // address, bytes
    STORE_OUTSIDE,     // address, bytes
    BARRIER_SITES,     // other_thread waits at other_line
    BARRIER_ENDED,     // the thread waits at line, another has ended
    SHARED_OVERRUN,    // written behind a shared array; the thread is the last to end
    STUCK,             // no thread has got anywhere for long
    STACK_OVERRUN,
    NO_STACKS,         // no memory for stacks of `address` bytes in all
};

// In step with `RawFault` of library.rs.
struct Fault {
    std::uint32_t kind;
    std::uint32_t thread;
    std::uint64_t block;
    std::uint32_t line;
    std::uint32_t other_thread;
    std::uint32_t other_line;
    std::uint32_t bytes;
    std::uint64_t address;
};

struct Range {
    std::uint64_t begin, end;
};

// In step with `RawLaunch` of library.rs. `memory` ascends and does not overlap.
struct Launch {
    const std::uint64_t* arguments;
    const Range* memory;
    std::uint64_t memory_count;
    std::uint64_t blocks;
    std::uint64_t seed;
    std::uint32_t threads;
    Fault fault;
};

typedef void (*Entry)(const std::uint64_t* arguments);

constexpr unsigned MAX_LIVE = 4;
constexpr unsigned MAX_SHARED = 16;
constexpr std::size_t STACK_BYTES = 64 * 1024;
// Stacks that begin at multiples of a power of two would share the same few cache lines.
constexpr std::size_t STACK_STRIDE = STACK_BYTES + 320;
constexpr std::size_t STACK_RESERVE = 4 * 1024;
constexpr std::size_t SHARED_GUARD = 64;
constexpr unsigned char POISON = 0xFF;
constexpr unsigned char GUARD = 0xA5;
// One draw of so many, one atomic of so many, holds a block back.
constexpr std::uint64_t HOLD_AFTER_DRAWS = 1024, HOLD_AFTER_ATOMICS = 4;
constexpr std::uint64_t STUCK_AFTER = 20 * 1000 * 1000;

struct Fibre {
    void* resume[5];
    bool started;
    std::uint32_t lane, thread;
};

struct SharedArray {
    const void* site;
    unsigned char* bytes;
    std::size_t size;
};

// One of the blocks that are live at the same time.
struct Lane {
    std::uint64_t block;
    std::uint32_t ended, waiting;
    std::uint32_t waiter, waiter_line;
    std::uint32_t shared_count;
    SharedArray shared[MAX_SHARED];
};

enum Outcome { PAUSED, WAITING, ENDED, FAULTED };

static Launch* launch;
static Entry entry;
static Fibre* fibres;
static Fibre* current;
static unsigned char* stacks;
static std::size_t stack_count;
static Lane lanes[MAX_LIVE];
static void* scheduler[5];
static Outcome outcome;
static std::uint64_t random_state;
static std::uint64_t idle_switches;
static std::uint32_t held_back;
static std::uint64_t held_for;

static std::uint64_t random_below(std::uint64_t bound) {
    random_state += 0x9E3779B97F4A7C15;
    std::uint64_t mixed = random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return (mixed ^ (mixed >> 31)) % bound;
}

// For some draws, few or many: a whole other block may come to its end meanwhile.
static void hold_back(std::uint32_t lane) {
    held_back = lane;
    held_for = std::uint64_t(16) << random_below(11);
}

// ---- switching ----------------------------------------------------------------

__attribute__((noinline)) static void jump(void** buffer) { __builtin_longjmp(buffer, 1); }

// From a fibre to the scheduler; returns when the scheduler resumes the fibre.
__attribute__((noinline)) static void leave(Outcome why) {
    outcome = why;
    if (__builtin_setjmp(current->resume) == 0) jump(scheduler);
}

static void fibre_main() {
    for (;;) {
        entry(launch->arguments);
        leave(ENDED);
    }
}

static unsigned char* stack_of(const Fibre* fibre) { return stacks + (fibre - fibres) * STACK_STRIDE; }

__attribute__((noinline)) static void enter(Fibre* fibre) {
    if (fibre->started) jump(fibre->resume);
    fibre->started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_of(fibre);
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, fibre_main, 0);
    setcontext(&context);
}

// From the scheduler to a fibre; returns when the fibre leaves.
__attribute__((noinline)) static void run_until_it_leaves(Fibre* fibre) {
    current = fibre;
    if (__builtin_setjmp(scheduler) == 0) enter(fibre);
}

// ---- faults -------------------------------------------------------------------

static void record(FaultKind kind, const Fibre* fibre, std::uint32_t line) {
    Fault& fault = launch->fault;
    fault.kind = kind;
    fault.thread = fibre->thread;
    fault.block = lanes[fibre->lane].block;
    fault.line = line;
}

__attribute__((noinline, noreturn)) static void fail(FaultKind kind, int line) {
    record(kind, current, line);
    leave(FAULTED);
    std::abort();
}

__attribute__((noinline, noreturn)) static void fail_at(
    FaultKind kind, const void* address, std::size_t bytes, int line) {
    launch->fault.address = reinterpret_cast<std::uint64_t>(address);
    launch->fault.bytes = bytes;
    fail(kind, line);
}

// ---- what primitives call -----------------------------------------------------

static inline std::uint32_t thread() { return current->thread; }
static inline std::uint64_t block() { return lanes[current->lane].block; }
static inline std::uint64_t blocks() { return launch->blocks; }

static void check_stack() {
    unsigned char* here = static_cast<unsigned char*>(__builtin_frame_address(0));
    if (here < stack_of(current) + STACK_RESERVE) fail(STACK_OVERRUN, 0);
}

static void pause() {
    check_stack();
    leave(PAUSED);
}

static void barrier(int line) {
    check_stack();
    Lane& lane = lanes[current->lane];
    if (lane.waiting != 0 && lane.waiter_line != static_cast<std::uint32_t>(line)) {
        launch->fault.other_thread = lane.waiter;
        launch->fault.other_line = lane.waiter_line;
        fail(BARRIER_SITES, line);
    }
    lane.waiting += 1;
    lane.waiter = current->thread;
    lane.waiter_line = line;
    leave(WAITING);
}

static void* shared(const void* site, std::size_t size, std::size_t) {
    Lane& lane = lanes[current->lane];
    for (std::uint32_t at = 0; at < lane.shared_count; ++at) {
        if (lane.shared[at].site == site) return lane.shared[at].bytes;
    }
    if (lane.shared_count == MAX_SHARED) std::abort();
    SharedArray& array = lane.shared[lane.shared_count++];
    std::size_t whole = (size + SHARED_GUARD + 255) / 256 * 256;
    array.site = site;
    array.size = size;
    array.bytes = static_cast<unsigned char*>(std::aligned_alloc(256, whole));
    if (array.bytes == nullptr) std::abort();
    std::memset(array.bytes, POISON, size);
    std::memset(array.bytes + size, GUARD, SHARED_GUARD);
    return array.bytes;
}

static bool in_memory(std::uint64_t begin, std::size_t bytes) {
    std::uint64_t low = 0, high = launch->memory_count;
    while (low < high) {
        std::uint64_t middle = (low + high) / 2;
        if (launch->memory[middle].end <= begin) low = middle + 1;
        else high = middle;
    }
    return low < launch->memory_count && launch->memory[low].begin <= begin
        && bytes <= launch->memory[low].end - begin;
}

static bool in_shared(std::uint64_t begin, std::size_t bytes) {
    const Lane& lane = lanes[current->lane];
    for (std::uint32_t at = 0; at < lane.shared_count; ++at) {
        std::uint64_t array = reinterpret_cast<std::uint64_t>(lane.shared[at].bytes);
        if (array <= begin && begin + bytes <= array + lane.shared[at].size) return true;
    }
    return false;
}

static void check(FaultKind outside, const void* address, std::size_t bytes, int line) {
    std::uint64_t begin = reinterpret_cast<std::uint64_t>(address);
    if (begin % bytes != 0) fail_at(MISALIGNED, address, bytes, line);
    if (!in_memory(begin, bytes)) fail_at(outside, address, bytes, line);
}

static inline void check_load(const void* address, std::size_t bytes, int line) {
    check(LOAD_OUTSIDE, address, bytes, line);
}

static inline void check_store(const void* address, std::size_t bytes, int line) {
    check(STORE_OUTSIDE, address, bytes, line);
}

static inline void check_atomic(const void* address, std::size_t bytes, int line) {
    if (random_below(HOLD_AFTER_ATOMICS) == 0) hold_back(current->lane);
    std::uint64_t begin = reinterpret_cast<std::uint64_t>(address);
    if (begin % bytes == 0 && in_shared(begin, bytes)) return;
    check(STORE_OUTSIDE, address, bytes, line);
}

// ---- the scheduler ------------------------------------------------------------

// Fibres that may run: those of each lane, in no order.
struct Ready {
    std::uint32_t* slots;
    std::uint32_t counts[MAX_LIVE];
    std::uint32_t live;

    void add(std::uint32_t slot) {
        std::uint32_t lane = fibres[slot].lane;
        slots[lane * launch->threads + counts[lane]++] = slot;
    }

    std::uint32_t count_but(std::uint32_t without) const {
        std::uint32_t sum = 0;
        for (std::uint32_t lane = 0; lane < live; ++lane) sum += lane == without ? 0 : counts[lane];
        return sum;
    }

    bool empty() const { return count_but(live) == 0; }

    std::uint32_t draw() {
        if (held_for != 0) held_for -= 1;
        else if (random_below(HOLD_AFTER_DRAWS) == 0) hold_back(random_below(live));
        // A lane that does not exist is never drawn; nor is one held back while others can run.
        std::uint32_t without = held_for != 0 && count_but(held_back) != 0 ? held_back : live;
        std::uint32_t at = random_below(count_but(without)), lane = 0;
        while (lane == without || at >= counts[lane]) {
            if (lane != without) at -= counts[lane];
            lane += 1;
        }
        std::uint32_t* own = slots + lane * launch->threads;
        std::uint32_t slot = own[at];
        own[at] = own[--counts[lane]];
        return slot;
    }
};

static void begin_block(std::uint32_t lane_index, std::uint64_t block, Ready& ready) {
    Lane& lane = lanes[lane_index];
    lane.block = block;
    lane.ended = 0;
    lane.waiting = 0;
    for (std::uint32_t at = 0; at < lane.shared_count; ++at) {
        std::memset(lane.shared[at].bytes, POISON, lane.shared[at].size);
    }
    for (std::uint32_t thread = 0; thread < launch->threads; ++thread) {
        ready.add(lane_index * launch->threads + thread);
    }
}

static bool shared_is_whole(const Lane& lane) {
    for (std::uint32_t at = 0; at < lane.shared_count; ++at) {
        for (std::size_t byte = 0; byte < SHARED_GUARD; ++byte) {
            if (lane.shared[at].bytes[lane.shared[at].size + byte] != GUARD) return false;
        }
    }
    return true;
}

// Whether a thread of the block waits although another has ended.
static bool waits_in_vain(const Lane& lane, const Fibre* fibre) {
    if (lane.waiting == 0 || lane.ended == 0) return false;
    record(BARRIER_ENDED, fibre, lane.waiter_line);
    launch->fault.thread = lane.waiter;
    return true;
}

static void schedule(std::uint32_t live, Ready& ready) {
    // Blocks begin in an order of their own: first, first + step, first + 2 step, …
    std::uint64_t blocks = launch->blocks;
    std::uint64_t first = random_below(blocks), step = 1, begun = 0;
    for (;;) {
        step = 1 + random_below(blocks);
        std::uint64_t a = step, b = blocks;
        while (b != 0) {
            std::uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
    }
    std::uint64_t next = first;
    auto begin_next = [&](std::uint32_t lane) {
        begin_block(lane, next, ready);
        next = (next + step) % blocks;
        begun += 1;
    };
    for (std::uint32_t lane = 0; lane < live; ++lane) begin_next(lane);
    while (!ready.empty()) {
        Fibre* fibre = &fibres[ready.draw()];
        run_until_it_leaves(fibre);
        Lane& lane = lanes[fibre->lane];
        switch (outcome) {
        case FAULTED:
            return;
        case PAUSED:
            ready.add(fibre - fibres);
            if (++idle_switches > STUCK_AFTER) return record(STUCK, fibre, 0);
            break;
        case WAITING:
            if (waits_in_vain(lane, fibre)) return;
            if (lane.waiting == launch->threads) {
                lane.waiting = 0;
                idle_switches = 0;
                for (std::uint32_t thread = 0; thread < launch->threads; ++thread) {
                    ready.add(fibre->lane * launch->threads + thread);
                }
            }
            break;
        case ENDED:
            lane.ended += 1;
            idle_switches = 0;
            if (waits_in_vain(lane, fibre)) return;
            if (lane.ended == launch->threads) {
                if (!shared_is_whole(lane)) return record(SHARED_OVERRUN, fibre, 0);
                if (begun < blocks) begin_next(fibre->lane);
            }
            break;
        }
    }
}

static bool reserve_stacks(std::size_t count) {
    if (count <= stack_count) return true;
    if (stacks != nullptr) munmap(stacks, stack_count * STACK_STRIDE);
    stack_count = 0;
    void* fresh = mmap(nullptr, count * STACK_STRIDE, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) {
        stacks = nullptr;
        return false;
    }
    stacks = static_cast<unsigned char*>(fresh);
    stack_count = count;
    return true;
}

static void run(Entry which, Launch* what) {
    launch = what;
    entry = which;
    random_state = what->seed;
    idle_switches = 0;
    held_for = 0;
    std::uint32_t live = 2 + random_below(MAX_LIVE - 1);
    if (live > what->blocks) live = what->blocks;
    std::size_t count = std::size_t(live) * what->threads;
    fibres = static_cast<Fibre*>(std::calloc(count, sizeof(Fibre)));
    Ready ready = {static_cast<std::uint32_t*>(std::malloc(count * sizeof(std::uint32_t))), {}, live};
    if (fibres == nullptr || ready.slots == nullptr || !reserve_stacks(count)) {
        what->fault.kind = NO_STACKS;
        what->fault.address = count * STACK_STRIDE;
    } else {
        for (std::uint32_t slot = 0; slot < count; ++slot) {
            fibres[slot].lane = slot / what->threads;
            fibres[slot].thread = slot % what->threads;
        }
        schedule(live, ready);
    }
    for (Lane& lane : lanes) {
        for (std::uint32_t at = 0; at < lane.shared_count; ++at) std::free(lane.shared[at].bytes);
        lane.shared_count = 0;
    }
    std::free(ready.slots);
    std::free(fibres);
}

__attribute__((destructor)) static void release_stacks() {
    if (stacks != nullptr) munmap(stacks, stack_count * STACK_STRIDE);
}

// ---- entries ------------------------------------------------------------------

template <std::size_t... Place> struct Places {};
template <std::size_t Count, std::size_t... Place> struct Counted : Counted<Count - 1, Count - 1, Place...> {};
template <std::size_t... Place> struct Counted<0, Place...> {
    typedef Places<Place...> Type;
};

// Every argument is 64 bits: an integer or an address.
template <typename... P, std::size_t... Place>
static void call_with(void (*body)(P...), const std::uint64_t* arguments, Places<Place...>) {
    static_assert(((sizeof(P) == sizeof(std::uint64_t)) && ...), "an argument is 64 bits");
    (void)arguments;
    body((P)(arguments[Place])...);
}

template <std::size_t Count, typename... P> static void call(void (*body)(P...), const std::uint64_t* arguments) {
    static_assert(sizeof...(P) == Count, "the entry takes what its parameter list says");
    call_with(body, arguments, typename Counted<Count>::Type());
}

}  // namespace rl_host
