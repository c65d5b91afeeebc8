"""How a model is opened: record and edit its sites. Imports core, tasks and models."""
