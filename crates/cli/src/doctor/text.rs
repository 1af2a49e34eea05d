//! The findings as a page for people.

use rowloom_runtime::cache::Damage;
use rowloom_runtime::tuning::one_line;

use super::findings::{Findings, Found};
use crate::cache::size;

/// One line or two for each thing looked at.
pub fn text(findings: &Findings) -> String {
    let mut page = Page(String::new());
    page.line("rowloom", findings.rowloom);
    page.line("CPU", &format!("runs everything, on {} threads", findings.cpu.threads));
    match &findings.gpu_runs {
        Found::Yes(how) => page.line("GPU", &format!("runs kernels: {how}")),
        Found::No { missing } => page.line("GPU", &format!("runs nothing: {missing}")),
    }
    if let Found::Yes(cuda) = &findings.cuda {
        let driver = cuda.driver.as_deref().map_or(String::new(), |driver| format!("{driver}, "));
        page.line("driver", &format!("{driver}CUDA {}", cuda.version));
        for gpu in &cuda.gpus {
            page.line(&gpu.device, &format!("{}, {}, {}", gpu.product, gpu.arch, size(gpu.memory_bytes)));
        }
    }
    match &findings.nvrtc {
        Found::Yes(nvrtc) => {
            page.line("NVRTC", &format!("{} in {}", nvrtc.version, nvrtc.path));
            page.line("", &format!("makes code for {}", nvrtc.architectures.join(", ")));
        }
        Found::No { missing } => {
            page.line("NVRTC", &format!("missing: {missing}"));
            if let count @ 1.. = findings.nvrtc_searched.len() {
                page.line("", &format!("the {count} places where it was looked for stand at the end"));
            }
        }
    }
    match &findings.cache {
        Found::Yes(cache) => {
            let state = if cache.writable { "" } else { "; it cannot be written, so every process compiles anew" };
            let (entries, bytes) = (cache.usage.entries, size(cache.usage.bytes));
            page.line("cache", &format!("{}{state}", cache.folder));
            page.line("", &format!("{entries} pieces of code, {bytes} of {}", size(cache.limit_bytes)));
        }
        Found::No { missing } => page.line("cache", missing),
    }
    match &findings.pack {
        Some(Found::Yes(pack)) => {
            let architectures = pack.architectures.join(", ");
            page.line("pack", &format!("{} whole pieces for {architectures} in {}", pack.pieces, pack.folder));
        }
        Some(Found::No { missing }) => page.line("pack", missing),
        None => page.line("pack", "none; `rowloom pack` makes one, for machines without NVRTC"),
    }
    if !findings.jit {
        page.line("compiling", "forbidden by ROWLOOM_JIT=off");
    }
    let tuning = &findings.tuning;
    let records = match (tuning.used, tuning.records) {
        (false, records) => format!("{records} records, none used: ROWLOOM_TUNE=off"),
        (true, 0) => "no records; `rowloom tune` makes some".to_owned(),
        (true, records) => format!("{records} records, {} used here; `rowloom tune --show` lists them", tuning.usable),
    };
    page.line("tuning", &records);
    for Damage { path, reason } in &tuning.damaged {
        page.line("", &one_line(&format!("{} is not used: {reason}", path.display())));
    }
    match &findings.emulation {
        Found::Yes(emulation) => page.line("emulation", &format!("{}: {}", emulation.compiler, emulation.version)),
        Found::No { missing } => page.line("emulation", &format!("missing: {missing}")),
    }
    for (at, (name, value)) in findings.environment.iter().enumerate() {
        page.line(if at == 0 { "environment" } else { "" }, &format!("{name}={value}"));
    }
    for (at, place) in findings.nvrtc_searched.iter().enumerate() {
        page.line(if at == 0 { "looked for" } else { "" }, place);
    }
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, what: &str, text: &str) {
        self.0 += format!("{what:<12}{text}").trim_end();
        self.0.push('\n');
    }
}
