//! The figure of a run: the candidates of each subject and S, fastest first, against the ceiling.

use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use rowloom_codegen::Choice;
use rowloom_runtime::tuning::Outcome;

use super::results::{Result as Tuned, Results};
use crate::drawing::{self, Canvas, Drawing, FAINT, INK};
use crate::error::{Error, Result};

/// What follows the output's name in those of the figure's files.
pub const FILES: [&str; 2] = ["candidates.png", "candidates.svg"];

/// All in pixels.
const WIDTH: i32 = 1200;
const TOP: i32 = 80;
const PANEL: (i32, i32) = (600, 340);
/// Around the points of a panel: left, above, right, below.
const LEFT: i32 = 76;
const ABOVE: i32 = 72;
const RIGHT: i32 = 24;
const BELOW: i32 = 44;
const TEXT: u32 = 14;

const CANDIDATE: RGBColor = RGBColor(31, 94, 168);
const DEFAULT: RGBColor = RGBColor(178, 92, 30);
const WINNER: RGBColor = RGBColor(20, 128, 122);
const CEILING: RGBColor = RGBColor(112, 112, 124);

struct Figure<'r> {
    results: &'r Results,
}

/// PNG and SVG.
pub fn drawn(results: &Results) -> Result<(Vec<u8>, String)> {
    let figure = Figure { results };
    let failed = |error: String| Error::failed(format!("cannot draw the figure: {error}"));
    Ok((drawing::png(&figure).map_err(failed)?, drawing::svg(&figure).map_err(failed)?))
}

impl Drawing for Figure<'_> {
    fn size(&self) -> (u32, u32) {
        let lines = self.results.results.len().div_ceil(2).max(1) as i32;
        (WIDTH as u32, (TOP + lines * PANEL.1) as u32)
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> std::result::Result<(), String> {
        let Results { op, dtype, hidden, product, layouts, date, .. } = self.results;
        let left = Pos::new(HPos::Left, VPos::Top);
        canvas.text(&format!("{op}: every candidate, timed"), (20, 14), 22, left, INK)?;
        let facts = format!("{product}, {date}, {dtype}, H = {hidden}, mean of layouts {}", layouts.join(", "));
        canvas.text(&facts, (20, 46), 16, left, INK)?;
        for (at, result) in (0..).zip(&self.results.results) {
            let corner = (at % 2 * PANEL.0, TOP + at / 2 * PANEL.1);
            panel(canvas, self.results, result, corner)?;
        }
        Ok(())
    }
}

/// Times of the timed candidates, fastest first.
fn sorted(result: &Tuned) -> Vec<(f64, Choice)> {
    let timed = result.candidates().iter().filter_map(|trial| match trial.outcome {
        Outcome::Timed { us, .. } => Some((us, trial.schedule)),
        Outcome::Differs { .. } | Outcome::Illegal { .. } | Outcome::Failed { .. } => None,
    });
    let mut timed: Vec<(f64, Choice)> = timed.collect();
    timed.sort_by(|left, right| left.0.total_cmp(&right.0));
    timed
}

fn panel<B: DrawingBackend>(
    canvas: &Canvas<'_, B>,
    results: &Results,
    result: &Tuned,
    (x, y): (i32, i32),
) -> std::result::Result<(), String> {
    let (left, right, top, bottom) = (x + LEFT, x + PANEL.0 - RIGHT, y + ABOVE, y + PANEL.1 - BELOW);
    let anchor = |horizontal, vertical| Pos::new(horizontal, vertical);
    let title = format!("{}, S = {}", result.name, result.positions);
    canvas.text(&title, (x + 20, y + 4), 18, anchor(HPos::Left, VPos::Top), INK)?;
    let timed = sorted(result);
    let Some(record) = result.record.as_ref().filter(|_| !timed.is_empty()) else {
        return canvas.text("nothing was timed", (left, top), TEXT, anchor(HPos::Left, VPos::Top), INK);
    };
    let winner = match record.winner == record.default {
        true => format!("winner: the default, {:.1} µs", record.winner_us),
        false => format!("winner: {:.1} µs, default {:.1} µs", record.winner_us, record.default_us),
    };
    canvas.text(&winner, (x + 20, y + 26), TEXT, anchor(HPos::Left, VPos::Top), INK)?;

    let ceiling = results.ceilings.us(result);
    let most = timed.iter().map(|(us, _)| *us).chain(ceiling.map(|(us, _)| us)).fold(0.0, f64::max).max(1e-6);
    let most = nice(most);
    let place_y = |us: f64| bottom - (us / most * f64::from(bottom - top)) as i32;
    let place_x = |at: usize| {
        let share = (at as f64 + 0.5) / timed.len() as f64;
        left + (share * f64::from(right - left)) as i32
    };
    for tick in 0..=4 {
        let us = most * f64::from(tick) / 4.0;
        let at = place_y(us);
        canvas.line([(left, at), (right, at)], if tick == 0 { INK } else { FAINT })?;
        canvas.text(&number(us), (left - 8, at), TEXT, anchor(HPos::Right, VPos::Center), INK)?;
    }
    canvas.text("µs", (left - 8, top - 18), TEXT, anchor(HPos::Right, VPos::Center), INK)?;
    let axis = match timed.len() {
        1 => "one candidate".to_owned(),
        count => format!("{count} candidates, fastest first"),
    };
    canvas.text(&axis, ((left + right) / 2, bottom + 14), TEXT, anchor(HPos::Center, VPos::Top), INK)?;
    if let Some((us, name)) = ceiling {
        let at = place_y(us);
        canvas.line([(left, at), (right, at)], CEILING)?;
        let text = format!("{name} ceiling, {}", number(us));
        canvas.text(&text, (right, at + 4), TEXT, anchor(HPos::Right, VPos::Top), CEILING)?;
    }
    for (at, &(us, schedule)) in timed.iter().enumerate() {
        let place = (place_x(at), place_y(us));
        let (radius, colour, name) = if schedule == record.winner {
            (6, WINNER, Some(if record.winner == record.default { "default, winner" } else { "winner" }))
        } else if schedule == record.default {
            (6, DEFAULT, Some("default"))
        } else {
            (3, CANDIDATE, None)
        };
        canvas.dot(place, radius, colour)?;
        if let Some(name) = name {
            let side = if place.0 > (left + right) / 2 { HPos::Right } else { HPos::Left };
            canvas.text(name, (place.0, place.1 - 10), TEXT, anchor(side, VPos::Bottom), colour)?;
        }
    }
    Ok(())
}

/// The next number whose quarters people read well.
fn nice(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= most * 1.05)
        .unwrap_or(20.0 * power)
}

fn number(us: f64) -> String {
    if us >= 100.0 || us == 0.0 { format!("{us:.0}") } else { format!("{us:.1}") }
}
