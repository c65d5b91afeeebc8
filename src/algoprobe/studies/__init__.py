"""The papers: presets, figures and expected bands, one file a study."""
