//! Figures that others have published for the same op, to print ours beside.

use serde_json::Value;

/// A published file of one op.
pub struct Published {
    file: Value,
}

/// `adaln_row_gather` on a B200: diffusers and RL-Kernel.
const ADALN_ROW_GATHER: &str = include_str!("../../data/adaln_row_gather_b200.json");

impl Published {
    /// What is published for this op, if anything.
    pub fn of(op: &str) -> Option<Published> {
        let file: Value = serde_json::from_str(ADALN_ROW_GATHER).ok()?;
        (file["op"] == op).then_some(Published { file })
    }

    /// A field of the top level that is text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.file[key].as_str().map(str::to_owned)
    }

    /// The same with shorter names: `diffusers (NVIDIA B200)`.
    pub fn short_names(&self) -> impl Iterator<Item = (String, &Value)> {
        let gpu = self.file["environment"]["gpu"].as_str().unwrap_or("GPU");
        let results = self.file["results"]["plain"].as_object();
        results.into_iter().flatten().map(move |(name, result)| (format!("{name} ({gpu})"), result))
    }

    /// Each implementation's results, named with the GPU they were measured on.
    pub fn implementations(&self) -> impl Iterator<Item = (String, &Value)> {
        let gpu = self.file["environment"]["gpu"].as_str().unwrap_or("GPU");
        let results = self.file["results"]["plain"].as_object();
        results.into_iter().flatten().map(move |(name, result)| (format!("{name}, published ({gpu})"), result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_op_has_two_published_implementations_and_others_none() {
        let published = Published::of("adaln_row_gather").expect("the file is read");
        assert_eq!(published.text("kind").as_deref(), Some("h3_prior_art"));
        let names: Vec<String> = published.implementations().map(|(name, _)| name).collect();
        assert_eq!(names, ["diffusers, published (NVIDIA B200)", "rl_kernel, published (NVIDIA B200)"]);
        assert!(Published::of("row_gather").is_none());
    }
}
