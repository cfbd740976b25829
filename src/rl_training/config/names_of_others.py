"""Tables of names from other libraries with our names or advice, one table for each place where a name may stand."""

from __future__ import annotations

from dataclasses import fields

from rl_training.experience import ReplaySettings, RolloutSettings


def each(table: dict[str, str]) -> dict[str, str]:
    """Returns a table with one entry per name, where a key of the given one may hold several, separated by spaces."""
    return {name: text for names, text in table.items() for name in names.split()}


# Settings that have another name here.
SETTINGS = each(
    {
        "num_envs": "n_envs",
        "num_steps n_step estimation_step": "n_steps",
        "update_epochs": "n_epochs",
        "clip_coef eps_clip": "clip_range",
        "discount_factor discount": "gamma",
        "lr": "learning_rate",
        "max_batchsize": "batch_size",
        "norm_adv advantage_normalization": "normalize_advantage",
        "timesteps": "total_timesteps",
        "target_network_frequency": "target_update_interval",
        "memory_size": "buffer_size",
        "prioritized_replay": "prioritized",
        "start_e": "exploration_initial_eps",
        "end_e": "exploration_final_eps",
        "num_quantiles": "n_quantiles",
        "alpha": "ent_coef",
        "exploration_noise": "action_noise_std",
        "policy_noise": "target_policy_noise",
        "noise_clip": "target_noise_clip",
        "policy_frequency": "policy_delay",
        "num_critics": "n_critics",
        "utd_ratio": "gradient_steps",
        "info_keywords": "info_keys",
    }
)
# Settings that are said otherwise here, or do not exist: what to do instead.
SETTINGS_ADVICE = each(
    {
        "policy": "leave it out, the network follows from the spaces",
        "policy_kwargs": "give net_arch, activation_fn, ortho_init and the like directly",
        "features_extractor_class": "give encoder='package.module:factory'",
        "features_extractor_kwargs": "give encoder='package.module:factory', which knows its own sizes",
        "optimizer_class optimizer_kwargs": "every algorithm has the optimizer of its paper, choose learning_rate",
        "verbose progress_bar": "use progress=False in learn() for silence",
        "callback callbacks": "use callbacks=[...] in learn()",
        "tensorboard_log": "give run_dir=, TensorBoard files are written there if tensorboard is installed",
        "log_dir": "give run_dir=, logs and checkpoints are written there",
        "save_path": "give run_dir=, checkpoints are written there",
        "monitor_dir": "give run_dir=, episodes are written to its episodes.jsonl",
        "monitor_wrapper": "leave it out, episodes are counted without a wrapper",
        "stats_window_size": "leave it out, logs average over the last 100 episodes",
        "use_sde sde_sample_freq use_sde_at_warmup": "leave it out, state-dependent exploration is not available",
        "sub_sampling_factor": "leave it out, every step uses the whole rollout",
        "replay_buffer_class": "use prioritized, n_steps and buffer_folder, and for HER hindsight={'strategy': 'future', 'k': 4}",
        "replay_buffer_kwargs": "use prioritized, n_steps and buffer_folder, and for HER hindsight={'strategy': 'future', 'k': 4}",
        "n_sampled_goal": "use hindsight={'k': ...}",
        "goal_selection_strategy": "use hindsight={'strategy': 'future'}, 'final' or 'episode'",
        "rollout_buffer_class rollout_buffer_kwargs": "leave it out, there is one kind of rollout",
        "optimize_memory_usage": "leave it out, every observation is stored once",
        "env_kwargs": "use kwargs={...}",
        "render_mode": "use kwargs={'render_mode': ...}",
        "wrapper_class wrappers env_wrapper": "hand over a function that returns the wrapped environment",
        "vec_env_cls": "use vectorization='sync' or 'async'",
        "eval_env": "use evaluation={'env': ..., 'interval': ...}",
        "eval_freq": "use evaluation={'interval': ...}, in env steps of all environments",
        "n_eval_episodes": "use evaluation={'episodes': ...}",
        "save_freq": "use run_dir= and checkpoint={'interval': ...}, in env steps of all environments",
        "custom_objects": "give changed settings as keywords, e.g. learning_rate=1e-5; nothing is unpickled",
        "print_system_info": "leave it out, `rl-training doctor` prints it",
        "force_reset": "leave it out, changed environments always start anew",
        "map_location": "use device=",
        "_init_setup_model": "leave it out, networks are built at once",
    }
)
# Keywords of methods.
KEYWORDS = {
    "learn": {
        "callback": "use callbacks=[...], which takes rl_training.Callback objects",
        "progress_bar": "use progress=True or progress=False",
        "verbose": "use progress=False for silence",
        "tb_log_name": "give run_dir= when the agent is built, TensorBoard files are written there",
        "log_interval": "give log_interval= when the agent is built, in env steps",
        "reset_num_timesteps": "leave it out, learn(N) always takes N further steps",
        "eval_env": "give evaluation={'env': ..., 'interval': ...} when the agent is built",
        "eval_freq": "give evaluation={'interval': ...} when the agent is built, in env steps of all environments",
        "n_eval_episodes": "give evaluation={'episodes': ...} when the agent is built",
        "eval_log_path": "give run_dir= when the agent is built",
        "run_dir": "give it when the agent is built",
        "seed": "give it when the agent is built",
        "use_masking": "leave it out, the observation's key action_mask is always used",
        "timesteps": "use total_timesteps=",
        "total_steps": "use total_timesteps=",
        "num_timesteps": "use total_timesteps=",
        "n_steps": "use total_timesteps=, or total_updates= for updates from a dataset",
    },
    "predict": {
        "observation": "use obs=",
        "observations": "use obs=",
        "mask": "use episode_start=",
        "states": "use state=",
        "episode_starts": "use episode_start=",
        "action_masks": "put the mask into the observation under the key 'action_mask'",
    },
    "evaluate": {
        "n_eval_episodes": "use num_episodes=",
        "n_episodes": "use num_episodes=",
        "episodes": "use num_episodes=",
        "model": "leave it out, the agent evaluates itself",
        "render": "step an environment with render_mode='human' yourself, with predict()",
        "callback": "use watch=, a function of the [time, env] steps",
        "return_episode_rewards": "leave it out, the result has returns and lengths of every episode",
        "reward_threshold": "compare the result's mean yourself",
        "warn": "leave it out",
        "use_masking": "leave it out, the observation's key action_mask is always used",
        "n_envs": "give evaluation={'n_envs': ...} when the agent is built",
    },
    "save": {
        "include": "leave it out, the whole agent is saved, its replay too",
        "exclude": "leave it out, the whole agent is saved, its replay too",
        "overwrite": "leave it out, an older checkpoint of that name is replaced",
    },
}
# Attributes and methods of an agent.
ATTRIBUTES = each(
    {
        "policy policy_class": "the policy is agent.algorithm.policy",
        "actor critic critic_target q_net q_net_target": "the networks are in agent.algorithm",
        "logger": "override on_log of a rl_training.Callback to read metrics, and give run_dir= to have them written",
        "set_logger": "give run_dir= when the agent is built",
        "set_env": "load(path, env=...) gives a new agent with the saved weights; a saved one is made by save(path)",
        "get_env": "the environments are agent.env",
        "get_vec_normalize_env": "observation statistics are in the model, with normalize_observation=True",
        "get_parameters": "use agent.algorithm.state_dict()",
        "set_parameters": "use agent.warm_start(path), which takes the weights of a saved agent",
        "load_replay_buffer save_replay_buffer": "the replay is in save() and load()",
        "replay_buffer rollout_buffer": "it is agent.trainer.experience, once learn() was called",
        "set_random_seed": "give seed= when the agent is built",
        "seed": "it is agent.config.training.seed",
        "device": "it is agent.config.training.device",
        "n_envs": "it is agent.config.env.n_envs",
        "observation_space": "it is agent.spec.obs",
        "action_space": "it is agent.spec.action",
        "ep_info_buffer ep_success_buffer": "the last episodes are agent.trainer.recent",
        "lr_schedule": "give learning_rate='lin_3e-4' or 'cos_3e-4' when the agent is built",
        "train collect_rollouts": "use agent.learn(total_timesteps)",
        "fit": "use agent.learn(total_updates=...), with dataset= when the agent is built",
        "test": "use agent.evaluate(num_episodes)",
        "act": "use agent.predict(obs)",
        "total_timesteps": "env steps so far are agent.num_timesteps, the budget is agent.config.training.total_timesteps",
        "verbose": "use progress=False in learn() for silence",
    }
)
# Methods that a callback of another library overrides, and that nothing would ever call here.
CALLBACK_METHODS = each(
    {
        "_on_step on_step _on_rollout_start _on_rollout_end": "on_steps(trainer, episodes)",
        "on_rollout_start on_rollout_end on_episode_end": "on_steps(trainer, episodes)",
        "_on_training_start on_training_start on_train_start": "on_start(trainer)",
        "_on_training_end on_training_end on_train_end on_stop": "on_end(trainer)",
        "on_eval": "on_evaluation(trainer, result)",
    }
)
# Names that people look for in the package.
NAMES = {
    "MaskablePPO": "every algorithm for discrete actions takes the observation's key action_mask: use PPO",
    "HER": "it is an option of every method with a replay: SAC(env, hindsight={'strategy': 'future', 'k': 4})",
    "HerReplayBuffer": "it is an option of every method with a replay: SAC(env, hindsight={'strategy': 'future', 'k': 4})",
    "ARS": "evolution strategies are not available",
    "DreamerV3": "model-based methods are not available",
    "BaseCallback": "derive from rl_training.Callback",
    "EvalCallback": "give evaluation={'interval': ...} when the agent is built",
    "CheckpointCallback": "give run_dir= and checkpoint={'interval': ...} when the agent is built",
    "Monitor": "leave it out, episodes are counted without a wrapper",
    "VecNormalize": "use normalize_observation=True, and with rollouts normalize_reward=True",
    "VecFrameStack": "use frame_stack=4",
    "DummyVecEnv": "use n_envs=8",
    "SubprocVecEnv": "use n_envs=8, vectorization='async'",
    "make_vec_env": "use n_envs=8",
    "make_atari_env": "name the game, env.id=ALE/Pong-v5, and its protocol, env.kwargs={'protocol': 'dqn'}",
    "evaluate_policy": "use agent.evaluate(num_episodes)",
    "check_env": "use rl_training.envs.check",
}


SettingPath = tuple[str, ...]  # section and field


ONCE_IN_ALGORITHM = sorted({f.name for kind in (RolloutSettings, ReplaySettings) for f in fields(kind)} - {"store"})


ALIASES: dict[SettingPath, SettingPath] = {
    ("algorithm", "buffer_capacity"): ("experience", "buffer_size"),
    ("algorithm", "train_frequency"): ("experience", "train_freq"),
    ("experience", "buffer_capacity"): ("experience", "buffer_size"),
    ("experience", "train_frequency"): ("experience", "train_freq"),
    ("algorithm", "gradient_updates_per_step"): ("algorithm", "gradient_steps"),
    ("algorithm", "offline_pretrain_updates"): ("training", "total_updates"),
    **{("algorithm", name): ("experience", name) for name in ONCE_IN_ALGORITHM},
}
