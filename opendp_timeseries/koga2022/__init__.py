"""The paper, whole: its bounds, Algorithm 1, baselines, datasets and experiments. Nothing outside imports it."""
