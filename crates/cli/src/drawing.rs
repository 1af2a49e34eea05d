//! Drawings as PNG and as SVG, with a font of our own.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::Pos;
use plotters::style::{FontStyle, register_font};

/// DejaVu Sans 2.37; its licence lies beside it.
const FONT: &[u8] = include_bytes!("../assets/DejaVuSans.ttf");
const FAMILY: &str = "sans-serif";

/// Text.
pub const INK: RGBColor = RGBColor(32, 36, 44);
/// Lines behind.
pub const FAINT: RGBColor = RGBColor(218, 222, 228);

/// What can be drawn.
pub trait Drawing {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it.
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Result<(), String>;
}

/// Where it is drawn. Sizes of text are even: plotters cuts half of one to whole pixels glyph by
/// glyph, which would lift points and commas off the line.
pub struct Canvas<'r, B: DrawingBackend> {
    root: &'r DrawingArea<B, Shift>,
}

/// A whole PNG file.
pub fn png(drawing: &impl Drawing) -> Result<Vec<u8>, String> {
    let (width, height) = drawing.size();
    let mut pixels = vec![0; (width * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    draw(drawing, &root)?;
    drop(root);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer.write_image_data(&pixels).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(file)
}

/// A whole SVG file.
pub fn svg(drawing: &impl Drawing) -> Result<String, String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, drawing.size()).into_drawing_area();
    draw(drawing, &root)?;
    drop(root);
    Ok(text)
}

fn draw<B: DrawingBackend>(drawing: &impl Drawing, root: &DrawingArea<B, Shift>) -> Result<(), String> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let register = || register_font(FAMILY, FontStyle::Normal, FONT).map_err(|_| "the font is damaged".to_owned());
    REGISTERED.get_or_init(register).clone()?;
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    drawing.draw(&Canvas { root })?;
    root.present().map_err(|error| error.to_string())
}

impl<B: DrawingBackend> Canvas<'_, B> {
    /// A straight line.
    pub fn line(&self, ends: [(i32, i32); 2], colour: RGBColor) -> Result<(), String> {
        self.root.draw(&PathElement::new(ends, colour)).map_err(|error| error.to_string())
    }

    /// A filled rectangle.
    pub fn block(&self, corners: [(i32, i32); 2], colour: RGBColor) -> Result<(), String> {
        self.root.draw(&Rectangle::new(corners, colour.filled())).map_err(|error| error.to_string())
    }

    /// A filled disc.
    pub fn dot(&self, at: (i32, i32), radius: i32, colour: RGBColor) -> Result<(), String> {
        self.root.draw(&Circle::new(at, radius, colour.filled())).map_err(|error| error.to_string())
    }

    /// Text of this height.
    pub fn text(&self, text: &str, at: (i32, i32), size: u32, anchor: Pos, colour: RGBColor) -> Result<(), String> {
        let style = TextStyle::from((FAMILY, size).into_font()).color(&colour).pos(anchor);
        self.root.draw(&Text::new(text, at, style)).map_err(|error| error.to_string())
    }
}
