//! What a figure shows, before it is drawn.

use rowloom_op_adaln::Layout;
use serde_json::Value;

use super::super::number::Number;
use super::super::published::Published;
use super::super::stand_in;
use super::super::table::{sizes, time_text};

/// Panels side by side.
pub struct Figure {
    /// What it is called in file names.
    pub name: &'static str,
    pub title: String,
    pub subtitle: String,
    pub panels: Vec<Panel>,
    /// Lines below the panels: what a reader must know of what is shown.
    pub notes: Vec<String>,
}

/// Groups of bars on one axis.
pub struct Panel {
    pub title: String,
    /// What the axis measures, with its unit.
    pub axis: &'static str,
    /// Where on the axis, from 0 to 1, which label stands.
    pub ticks: Vec<(f64, String)>,
    pub groups: Vec<Group>,
}

/// The bars of one S.
pub struct Group {
    pub title: String,
    pub bars: Vec<Bar>,
}

/// One implementation.
pub struct Bar {
    pub name: String,
    /// From 0 to 1 on the axis; nothing where nothing is known.
    pub length: Option<f64>,
    pub text: String,
    pub colour: Colour,
}

/// Whose bar.
#[derive(Clone, Copy)]
pub enum Colour {
    Ours,
    OursF64,
    Framework,
    Published,
}

impl Figure {
    /// Whether no bar has a length.
    pub fn is_empty(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.groups).flat_map(|group| &group.bars).all(|bar| bar.length.is_none())
    }
}

/// Times of both directions as shares of the memory's ceilings.
pub fn speed(report: &Value) -> Figure {
    // New memory costs a CPU more than the call, so all bars are of calls that allocate. What has no planned call on
    // a GPU is shown by what a user calls.
    let on_gpu = report["environment"]["gpu"].is_string();
    let panel = |direction: &str, planned: &str, unplanned: &str| {
        let (keys, what) = match on_gpu {
            true => (vec![(planned, ""), (unplanned, ", unplanned")], "planned"),
            false => (vec![(unplanned, "")], "unplanned, into new memory"),
        };
        let traffic = &report["protocol"]["traffic"][direction];
        let kind = traffic["kind"].as_str().unwrap_or("copy").to_owned();
        let groups = sizes(measured(report).map(|(_, result)| result)).into_iter().filter_map(|positions| {
            let ceiling = report["environment"]["ceilings"][&positions][format!("{kind}_gb_s")].as_f64()?;
            let bytes = traffic["bytes_per_position"].as_f64()? * positions.parse::<f64>().ok()?;
            let bar = |(name, result): (&String, &Value)| {
                let at = &result["accuracy_latency"][&positions];
                let time = keys.iter().find_map(|(key, how)| Some((at[*key].as_f64()?, *how)));
                let share = time.map(|(us, how)| (bytes / us / 1e3 / ceiling, us, how));
                let text = share.map_or_else(
                    || "-".to_owned(),
                    |(share, us, how)| format!("{}, {:.0} %{how}", time_text(us), 100.0 * share),
                );
                Bar {
                    name: stand_in::shown(name),
                    length: share.map(|(share, ..)| share / 1.1),
                    text,
                    colour: colour(name),
                }
            };
            let title = format!("S = {positions}, ceiling {ceiling:.0} GB/s");
            Some(Group { title, bars: measured(report).map(bar).collect() })
        });
        let percent = |percent: u32| (f64::from(percent) / 110.0, percent.to_string());
        Panel {
            title: format!("{direction}, {what}, against the {kind} ceiling"),
            axis: "share of the ceiling of the same run, %",
            ticks: [0, 25, 50, 75, 100].map(percent).to_vec(),
            groups: groups.collect(),
        }
    };
    Figure {
        name: "speed",
        title: format!("{}: share of the memory's ceiling", report["op"].as_str().unwrap_or_default()),
        subtitle: subtitle(report),
        panels: vec![panel("forward", "fwd_planned_us", "fwd_us"), panel("backward", "bwd_planned_us", "bwd_us")],
        notes: stand_in::note(report),
    }
}

/// Error and correct rounding of what sums over positions, the published figures beside ours.
pub fn accuracy(report: &Value, published: Option<&Published>) -> Figure {
    // Theirs have the published layout, and errors of another one are no match for them.
    let published = published.filter(|_| report["environment"]["layout"] == Layout::INTERLEAVED.to_string());
    let theirs: Vec<(String, &Value)> = published.map_or_else(Vec::new, |published| published.short_names().collect());
    let sums = Sums::of(report);
    let lowest = lowest_decade(report, &sums);
    let place = |error: f64| ((error.log10() - lowest) / (0.3 - lowest)).max(0.0);
    let groups = |of: &dyn Fn(&Value) -> (Option<f64>, String)| -> Vec<Group> {
        let group = |positions: String| {
            let ours = measured(report).map(|(name, result)| (name.clone(), result));
            let bar = |(name, result): (String, &Value)| {
                let at = &result["accuracy_latency"][&positions];
                let (length, text) = of(at);
                let colour = colour(&name);
                (!at.is_null()).then_some(Bar { name: stand_in::shown(&name), length, text, colour })
            };
            Group {
                title: format!("S = {positions}"),
                bars: ours.chain(theirs.iter().map(|(name, result)| (name.clone(), *result))).filter_map(bar).collect(),
            }
        };
        sizes(measured(report).map(|(_, result)| result)).into_iter().map(group).collect()
    };
    let errors = groups(&|at| match sums.error(at) {
        Some(0.0) => (Some(0.0), "0".to_owned()),
        Some(error) if !error.is_finite() => (Some(1.0), error.to_string()),
        Some(error) => (Some(place(error)), if error < 1e-3 { format!("{error:.2e}") } else { format!("{error:.5}") }),
        None => (None, "-".to_owned()),
    });
    let rounded = groups(&|at| match at["correctly_rounded"].as_f64() {
        Some(share) => (Some(share / 1.1), share_text(share)),
        None => (None, "not published".to_owned()),
    });
    let percent = |percent: u32| (f64::from(percent) / 110.0, percent.to_string());
    let decade = |power: i32| {
        let error = 10f64.powi(power);
        (place(error), if power < -3 { format!("{error:e}") } else { error.to_string() })
    };
    Figure {
        name: "accuracy",
        title: format!("{}: accuracy of the {}", report["op"].as_str().unwrap_or_default(), sums.name()),
        subtitle: subtitle(report),
        panels: vec![
            Panel {
                title: format!("{} error", sums.name()),
                axis: "max|error| / max|exact|, logarithmic",
                ticks: (lowest as i32..=0).map(decade).collect(),
                groups: errors,
            },
            Panel {
                title: format!("{} elements correctly rounded", sums.name()),
                axis: "share equal to the exact sum rounded once, %",
                ticks: [0, 25, 50, 75, 100].map(percent).to_vec(),
                groups: rounded,
            },
        ],
        notes: stand_in::note(report),
    }
}

/// The directions that sum over positions: those whose elements are rounded sums.
struct Sums {
    forward: bool,
    backward: bool,
}

impl Sums {
    fn of(report: &Value) -> Sums {
        let has = |direction: &str| {
            report["protocol"]["sums"].as_array().is_some_and(|sums| sums.iter().any(|sum| sum == direction))
        };
        Sums { forward: has("forward"), backward: has("backward") }
    }

    /// What they make.
    fn name(&self) -> &'static str {
        match self {
            Sums { forward: true, backward: true } => "output and gradient",
            Sums { forward: true, backward: false } => "output",
            Sums { forward: false, .. } => "gradient",
        }
    }

    /// Its error.
    fn error(&self, at: &Value) -> Option<f64> {
        let forward = self.forward.then(|| Number::read(&at["fwd_rel_err"])).flatten();
        let backward = (self.backward || !self.forward).then(|| largest(&at["grad_rel_err"])).flatten();
        Number::largest(forward.into_iter().chain(backward))
    }
}

/// The power of ten at which the axis of errors begins: of the smallest error, at most -3.
fn lowest_decade(report: &Value, sums: &Sums) -> f64 {
    let sizes = measured(report).flat_map(|(_, result)| result["accuracy_latency"].as_object().into_iter().flatten());
    let errors = sizes.filter_map(|(_, at)| sums.error(at)).filter(|error| *error > 0.0);
    errors.fold(-3.0, |lowest: f64, error| lowest.min(error.log10().floor()))
}

/// All nines where it is not all.
fn share_text(share: f64) -> String {
    let digits = (0..8).find(|&digits| share >= 1.0 || format!("{:.digits$}", 100.0 * share) != "100");
    let digits = digits.filter(|_| share < 1.0).map_or(0, |digits| if share > 0.99 { digits.max(4) } else { 1 });
    format!("{:.digits$} %", 100.0 * share)
}

fn measured(report: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let results = report["results"]["plain"].as_object().into_iter().flatten();
    results.filter(|(_, result)| result.get("unavailable").is_none())
}

fn largest(by_input: &Value) -> Option<f64> {
    Number::largest(by_input.as_object()?.values().filter_map(Number::read))
}

fn colour(name: &str) -> Colour {
    match name {
        "rowloom" => Colour::Ours,
        "rowloom_f64" => Colour::OursF64,
        stand_in::NAME => Colour::Framework,
        _ => Colour::Published,
    }
}

fn subtitle(report: &Value) -> String {
    let (environment, protocol) = (&report["environment"], &report["protocol"]);
    let device = environment["gpu"].as_str().or(environment["cpu"].as_str()).or(environment["device"].as_str());
    let mut parts = vec![device.unwrap_or("unknown device").to_owned()];
    parts.extend(environment["date"].as_str().map(str::to_owned));
    parts.extend(protocol["dtype"].as_str().map(str::to_owned));
    parts.extend(protocol["hidden"].as_u64().map(|hidden| format!("H = {hidden}")));
    parts.extend(environment["layout"].as_str().map(|layout| format!("layout {layout}")));
    if report["quick"] == true {
        parts.push("a quick run: a look, no record".to_owned());
    }
    parts.join(", ")
}
