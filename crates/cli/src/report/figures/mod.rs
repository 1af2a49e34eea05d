//! Figures of a finished report, as PNG and SVG: shares of the ceilings, and accuracy.

mod bars;
mod draw;

use serde_json::Value;

use crate::error::{Error, Result};

use super::published::Published;
use bars::Figure;

/// What follows a report's name in those of its figures' files.
pub const FILES: [&str; 4] = ["speed.png", "speed.svg", "accuracy.png", "accuracy.svg"];

/// A drawn figure.
pub struct Drawn {
    /// What follows the report's name in its own: `speed`, `accuracy`.
    pub name: &'static str,
    /// PNG.
    pub png: Vec<u8>,
    /// SVG.
    pub svg: Vec<u8>,
}

/// Every figure that a report has something to show in.
pub fn figures(report: &Value, published: Option<&Published>) -> Result<Vec<Drawn>> {
    let figures = [bars::speed(report), bars::accuracy(report, published)];
    figures.into_iter().filter(|figure| !figure.is_empty()).map(|figure| drawn(&figure)).collect()
}

fn drawn(figure: &Figure) -> Result<Drawn> {
    let failed = |error: String| Error::failed(format!("cannot draw the figure {}: {error}", figure.name));
    Ok(Drawn {
        name: figure.name,
        png: draw::png(figure).map_err(failed)?,
        svg: draw::svg(figure).map_err(failed)?.into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Value {
        let at = |scale: f64| {
            serde_json::json!({
                "fwd_us": 113.0 * scale, "bwd_us": 181.0 * scale, "fwd_planned_us": 70.4 * scale,
                "bwd_planned_us": 68.7 * scale, "grad_rel_err": {"table": 0.00254}, "correctly_rounded": 0.999997})
        };
        let result = serde_json::json!({"accuracy_latency": {"4097": at(1.0), "32768": at(7.0)}});
        serde_json::json!({
            "op": "adaln_row_gather",
            "environment": {"gpu": "NVIDIA H200", "date": "2026-11-30", "layout": "interleaved", "ceilings": {
                "4097": {"read_gb_s": 4400.0, "write_gb_s": 4412.0}, "32768": {"read_gb_s": 4597.0, "write_gb_s": 4670.0}}},
            "protocol": {"dtype": "bf16", "hidden": 5376, "traffic": {
                "forward": {"kind": "write", "bytes_per_position": 64512},
                "backward": {"kind": "read", "bytes_per_position": 64512}}},
            "results": {"plain": {"rowloom": result, "rowloom_f64": result, "index_select": {"unavailable": "x"}}}})
    }

    #[test]
    fn both_figures_are_what_their_names_say() {
        let figures = figures(&report(), Published::of("adaln_row_gather").as_ref()).expect("figures");
        assert_eq!(figures.iter().map(|figure| figure.name).collect::<Vec<_>>(), ["speed", "accuracy"]);
        let files = figures.iter().flat_map(|figure| ["png", "svg"].map(|end| format!("{}.{end}", figure.name)));
        assert!(files.eq(FILES));
        for figure in &figures {
            assert!(figure.png.starts_with(b"\x89PNG\r\n\x1a\n"), "{}", figure.name);
            let svg = std::str::from_utf8(&figure.svg).expect("text");
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{}", figure.name);
            for word in ["NVIDIA H200", "2026-11-30", "S = 4097", "S = 32768", "rowloom_f64"] {
                assert!(svg.contains(word), "{}: {word}", figure.name);
            }
        }
        let svg = |at: usize| String::from_utf8_lossy(&figures[at].svg).into_owned();
        // 4097 positions of 64512 bytes in 70.4 µs, of 4412 GB/s.
        assert!(svg(0).contains("70.4 µs, 85 %"), "{}", svg(0));
        assert!(svg(1).contains("rl_kernel (NVIDIA B200)") && svg(1).contains("99.9997 %"), "{}", svg(1));
    }

    #[test]
    fn accuracy_is_of_what_sums() {
        let text = |sums: &[&str]| {
            let mut report = report();
            report["protocol"]["sums"] = serde_json::json!(sums);
            report["results"]["plain"] = serde_json::json!({"rowloom": {"accuracy_latency": {"257": {
                "fwd_rel_err": 3e-5, "grad_rel_err": {"source": 0.0}, "correctly_rounded": 0.58}}}});
            let figures = figures(&report, None).expect("figures");
            String::from_utf8_lossy(&figures.last().expect("one").svg).into_owned()
        };
        let forward = text(&["forward"]);
        for words in ["accuracy of the output", "output error", "output elements correctly rounded", "3.00e-5", "1e-5"]
        {
            assert!(forward.contains(words), "{words}: {forward}");
        }
        let backward = text(&["backward"]);
        assert!(backward.contains("gradient error") && !backward.contains("3.00e-5"), "{backward}");
        let both = text(&["forward", "backward"]);
        assert!(both.contains("output and gradient error") && both.contains("3.00e-5"), "{both}");
    }

    #[test]
    fn a_report_without_ceilings_has_no_figure_of_speed() {
        let mut report = report();
        report["environment"]["ceilings"] = serde_json::json!({});
        let figures = figures(&report, None).expect("figures");
        assert_eq!(figures.iter().map(|figure| figure.name).collect::<Vec<_>>(), ["accuracy"]);
    }

    fn svg(report: &Value) -> [String; 2] {
        let figures = figures(report, Published::of("adaln_row_gather").as_ref()).expect("figures");
        [0, 1].map(|at| String::from_utf8_lossy(&figures[at].svg).into_owned())
    }

    #[test]
    fn a_named_layout_of_one_s_stands_alone() {
        let mut report = report();
        let at = serde_json::json!({"fwd_us": 1100.0, "bwd_us": 2000.0, "grad_rel_err": {"table": 0.2}});
        report["results"]["plain"]["index_select"] = serde_json::json!({"accuracy_latency": {"32768": at}});
        for name in ["rowloom", "rowloom_f64"] {
            let sizes = report["results"]["plain"][name]["accuracy_latency"].as_object_mut().expect("a map");
            sizes.remove("4097");
        }
        report["environment"]["layout"] = "t2va-4s".into();
        let [speed, accuracy] = svg(&report);
        for figure in [&speed, &accuracy] {
            assert!(figure.contains("layout t2va-4s") && figure.contains("S = 32768"), "{figure}");
            assert!(!figure.contains("S = 4097") && !figure.contains("B200"), "{figure}");
        }
        // 32768 positions of 64512 bytes, of 4670 GB/s.
        assert!(speed.contains("1100 µs, 41 %, unplanned") && speed.contains("492.8 µs, 92 %\n"), "{speed}");
    }

    #[test]
    fn on_a_cpu_every_bar_is_of_a_call_into_new_memory() {
        let mut report = report();
        report["environment"]["gpu"] = Value::Null;
        report["environment"]["cpu"] = "a CPU".into();
        report["quick"] = true.into();
        let at = serde_json::json!({"fwd_us": 120.0, "bwd_us": 2000.0, "grad_rel_err": {"table": 0.2}});
        report["results"]["plain"]["index_select"] = serde_json::json!({"accuracy_latency": {"4097": at}});
        let [speed, accuracy] = svg(&report);
        assert!(speed.contains("forward, unplanned, into new memory"), "{speed}");
        assert!(speed.contains("113.0 µs") && speed.contains("120.0 µs") && speed.contains("181.0 µs"), "{speed}");
        assert!(!speed.contains("70.4 µs") && !speed.contains("68.7 µs") && !speed.contains("%, unplanned"), "{speed}");
        for figure in [&speed, &accuracy] {
            for words in ["a quick run: a look, no record", "index_select (stand-in)", "as a GPU's atomics do"] {
                assert!(figure.replace("&apos;", "'").contains(words), "{words}: {figure}");
            }
        }
        let [speed, _] = svg(&self::report());
        assert!(!speed.contains("quick") && !speed.contains("stand-in"), "{speed}");
    }

    #[test]
    fn errors_of_any_size_have_their_place() {
        let mut report = report();
        let error = |report: &mut Value, error: Value| {
            report["results"]["plain"]["rowloom"]["accuracy_latency"]["4097"]["grad_rel_err"]["table"] = error;
        };
        assert!(!svg(&report)[1].contains("1e-4"));
        error(&mut report, 2.5e-7.into());
        let [_, accuracy] = svg(&report);
        assert!(accuracy.contains("2.50e-7") && accuracy.contains("1e-7") && !accuracy.contains("1e-8"), "{accuracy}");
        for word in ["NaN", "inf"] {
            error(&mut report, word.into());
            assert!(svg(&report)[1].contains(word), "{word}");
        }
    }
}
