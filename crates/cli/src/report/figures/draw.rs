//! From bars to pixels and to SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bars::{Bar, Colour, Figure, Panel};
use crate::drawing::{self, Drawing, FAINT, INK};

/// All in pixels.
const WIDTH: u32 = 1200;
const TOP: i32 = 76;
const MARGIN: i32 = 20;
const PANEL_TITLE: i32 = 30;
const GROUP_TITLE: i32 = 24;
const BAR: i32 = 24;
const GROUP_GAP: i32 = 10;
const AXIS: i32 = 52;
const NOTE: i32 = 20;
const NAMES: i32 = 212;
const TEXT: u32 = 14;
/// Longer bars hold their text, shorter ones have it beside them.
const INSIDE: f64 = 0.55;

/// A whole PNG file.
pub fn png(figure: &Figure) -> Result<Vec<u8>, String> {
    drawing::png(figure)
}

/// A whole SVG file.
pub fn svg(figure: &Figure) -> Result<String, String> {
    drawing::svg(figure)
}

impl Drawing for Figure {
    fn size(&self) -> (u32, u32) {
        (WIDTH, height(self))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &drawing::Canvas<'_, B>) -> Result<(), String> {
        let canvas = Canvas { canvas };
        canvas.text(&self.title, (MARGIN, 16), 22, HPos::Left)?;
        canvas.text(&self.subtitle, (MARGIN, 46), 16, HPos::Left)?;
        let width = WIDTH as i32 / self.panels.len().max(1) as i32;
        for (at, panel) in (0..).zip(&self.panels) {
            canvas.panel(panel, at * width + MARGIN, (at + 1) * width - MARGIN)?;
        }
        for (at, note) in (0..).zip(&self.notes) {
            canvas.text(note, (MARGIN, panels_end(self) + at * NOTE), TEXT, HPos::Left)?;
        }
        Ok(())
    }
}

fn height(figure: &Figure) -> u32 {
    let notes = match figure.notes.len() as i32 {
        0 => 0,
        lines => lines * NOTE + MARGIN / 2,
    };
    (panels_end(figure) + notes) as u32
}

fn panels_end(figure: &Figure) -> i32 {
    let panels = figure.panels.iter().map(|panel| PANEL_TITLE + bars_height(panel) + AXIS);
    TOP + panels.max().unwrap_or(0)
}

fn bars_height(panel: &Panel) -> i32 {
    panel.groups.iter().map(|group| GROUP_TITLE + BAR * group.bars.len() as i32 + GROUP_GAP).sum()
}

struct Canvas<'r, B: DrawingBackend> {
    canvas: &'r drawing::Canvas<'r, B>,
}

impl<B: DrawingBackend> Canvas<'_, B> {
    fn panel(&self, panel: &Panel, left: i32, right: i32) -> Result<(), String> {
        self.text(&panel.title, (left, TOP + 2), 18, HPos::Left)?;
        let (start, top) = (left + NAMES, TOP + PANEL_TITLE);
        let bottom = top + bars_height(panel);
        let place = |share: f64| start + (share.clamp(0.0, 1.0) * f64::from(right - start)) as i32;
        for (share, label) in &panel.ticks {
            let x = place(*share);
            self.line([(x, top), (x, bottom)], FAINT)?;
            self.text(label, (x, bottom + 6), TEXT, HPos::Center)?;
        }
        self.line([(start, bottom), (right, bottom)], INK)?;
        self.text(panel.axis, ((start + right) / 2, bottom + 26), TEXT, HPos::Center)?;
        let mut y = top;
        for group in &panel.groups {
            self.text(&group.title, (left, y + 5), TEXT, HPos::Left)?;
            y += GROUP_TITLE;
            for bar in &group.bars {
                self.bar(bar, (left, start, y), place)?;
                y += BAR;
            }
            y += GROUP_GAP;
        }
        Ok(())
    }

    fn bar(&self, bar: &Bar, (left, start, y): (i32, i32, i32), place: impl Fn(f64) -> i32) -> Result<(), String> {
        let length = bar.length.unwrap_or(0.0);
        let end = place(length);
        let middle = y + BAR / 2;
        self.coloured(&bar.name, (left + 8, middle), TEXT, Pos::new(HPos::Left, VPos::Center), INK)?;
        self.canvas.block([(start, y + 2), (end, y + BAR - 3)], fill(bar.colour))?;
        if length > INSIDE {
            return self.coloured(&bar.text, (end - 8, middle), TEXT, Pos::new(HPos::Right, VPos::Center), WHITE);
        }
        self.coloured(&bar.text, (end + 6, middle), TEXT, Pos::new(HPos::Left, VPos::Center), INK)
    }

    fn line(&self, ends: [(i32, i32); 2], colour: RGBColor) -> Result<(), String> {
        self.canvas.line(ends, colour)
    }

    fn text(&self, text: &str, at: (i32, i32), size: u32, anchor: HPos) -> Result<(), String> {
        self.coloured(text, at, size, Pos::new(anchor, VPos::Top), INK)
    }

    fn coloured(&self, text: &str, at: (i32, i32), size: u32, anchor: Pos, colour: RGBColor) -> Result<(), String> {
        self.canvas.text(text, at, size, anchor, colour)
    }
}

fn fill(colour: Colour) -> RGBColor {
    match colour {
        Colour::Ours => RGBColor(31, 94, 168),
        Colour::OursF64 => RGBColor(20, 128, 122),
        Colour::Framework => RGBColor(178, 92, 30),
        Colour::Published => RGBColor(112, 112, 124),
    }
}
