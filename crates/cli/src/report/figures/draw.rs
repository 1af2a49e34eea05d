//! From bars to pixels and to SVG.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::bars::{Bar, Colour, Figure, Panel};

/// DejaVu Sans 2.37; its licence lies beside it.
const FONT: &[u8] = include_bytes!("../../../assets/DejaVuSans.ttf");
const FAMILY: &str = "sans-serif";

/// All in pixels.
const WIDTH: u32 = 1200;
const TOP: i32 = 76;
const MARGIN: i32 = 20;
const PANEL_TITLE: i32 = 30;
const GROUP_TITLE: i32 = 24;
const BAR: i32 = 24;
const GROUP_GAP: i32 = 10;
const AXIS: i32 = 52;
const NAMES: i32 = 212;
/// Sizes of text are even: plotters cuts half of one to whole pixels glyph by glyph, which would
/// lift points and commas off the line.
const TEXT: u32 = 14;
/// Longer bars hold their text, shorter ones have it beside them.
const INSIDE: f64 = 0.55;

const INK: RGBColor = RGBColor(32, 36, 44);
const FAINT: RGBColor = RGBColor(218, 222, 228);

/// A whole PNG file.
pub fn png(figure: &Figure) -> Result<Vec<u8>, String> {
    let height = height(figure);
    let mut pixels = vec![0; (WIDTH * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut pixels, (WIDTH, height)).into_drawing_area();
    draw(figure, &root)?;
    drop(root);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer.write_image_data(&pixels).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(file)
}

/// A whole SVG file.
pub fn svg(figure: &Figure) -> Result<String, String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (WIDTH, height(figure))).into_drawing_area();
    draw(figure, &root)?;
    drop(root);
    Ok(text)
}

fn height(figure: &Figure) -> u32 {
    let panels = figure.panels.iter().map(|panel| PANEL_TITLE + bars_height(panel) + AXIS);
    (TOP + panels.max().unwrap_or(0)) as u32
}

fn bars_height(panel: &Panel) -> i32 {
    panel.groups.iter().map(|group| GROUP_TITLE + BAR * group.bars.len() as i32 + GROUP_GAP).sum()
}

fn draw<B: DrawingBackend>(figure: &Figure, root: &DrawingArea<B, Shift>) -> Result<(), String> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let register = || register_font(FAMILY, FontStyle::Normal, FONT).map_err(|_| "the font is damaged".to_owned());
    REGISTERED.get_or_init(register).clone()?;
    let canvas = Canvas { root };
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    canvas.text(&figure.title, (MARGIN, 16), 22, HPos::Left)?;
    canvas.text(&figure.subtitle, (MARGIN, 46), 16, HPos::Left)?;
    let width = WIDTH as i32 / figure.panels.len().max(1) as i32;
    for (at, panel) in (0..).zip(&figure.panels) {
        canvas.panel(panel, at * width + MARGIN, (at + 1) * width - MARGIN)?;
    }
    root.present().map_err(|error| error.to_string())
}

struct Canvas<'r, B: DrawingBackend> {
    root: &'r DrawingArea<B, Shift>,
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
        let body = Rectangle::new([(start, y + 2), (end, y + BAR - 3)], fill(bar.colour).filled());
        self.root.draw(&body).map_err(|error| error.to_string())?;
        if length > INSIDE {
            return self.coloured(&bar.text, (end - 8, middle), TEXT, Pos::new(HPos::Right, VPos::Center), WHITE);
        }
        self.coloured(&bar.text, (end + 6, middle), TEXT, Pos::new(HPos::Left, VPos::Center), INK)
    }

    fn line(&self, ends: [(i32, i32); 2], colour: RGBColor) -> Result<(), String> {
        self.root.draw(&PathElement::new(ends, colour)).map_err(|error| error.to_string())
    }

    fn text(&self, text: &str, at: (i32, i32), size: u32, anchor: HPos) -> Result<(), String> {
        self.coloured(text, at, size, Pos::new(anchor, VPos::Top), INK)
    }

    fn coloured(&self, text: &str, at: (i32, i32), size: u32, anchor: Pos, colour: RGBColor) -> Result<(), String> {
        let style = TextStyle::from((FAMILY, size).into_font()).color(&colour).pos(anchor);
        self.root.draw(&Text::new(text, at, style)).map_err(|error| error.to_string())
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
