"""Watches and steers a run with a callback."""

from rl_training import PPO, Callback, EvalResult
from rl_training.runtime import Episode, Trainer


class Watch(Callback):
    """Counts episodes, prints at every 5,000 steps and stops when training episodes are good enough."""

    interval = 5_000  # env steps

    def __init__(self, good_enough: float) -> None:
        self.good_enough = good_enough
        self.num_episodes = 0

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        self.num_episodes += len(episodes)
        recent = [episode.ret for episode in trainer.recent]
        if len(recent) == 100 and sum(recent) / len(recent) >= self.good_enough:
            trainer.request_stop(f"the last 100 episodes reached {self.good_enough:g}")

    def on_interval(self, trainer: Trainer) -> None:
        print(f"{trainer.progress.timesteps} steps, {self.num_episodes} episodes")

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        assert "train/approx_kl" in metrics

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        print(f"evaluation at {trainer.progress.timesteps}: {result.mean:.1f}")


def main() -> None:
    agent = PPO(
        "CartPole-v1",
        n_envs=8,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=1e-3,
        seed=0,
        evaluation={"interval": 10_000, "episodes": 5},
    )
    result = agent.learn(50_000, callbacks=[Watch(good_enough=60.0)], progress=False)
    print(f"{result.status}: {result.reason}")


if __name__ == "__main__":
    main()
