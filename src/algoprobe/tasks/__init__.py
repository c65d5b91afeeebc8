"""What is asked: one folder per task family, with config, sampler, grader, baselines, card and drawing."""
