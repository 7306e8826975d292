"""Slow truths in NumPy, float64, one loop per sum. Imports nothing of the package."""

import math

import numpy as np


def reward_to_go(rewards, mask, discount):
    """[S]: what is still to come from each stage on, discounted per stage."""
    to_go, answer = 0.0, []
    for reward, present in zip(reversed(rewards), reversed(mask), strict=True):
        to_go = (reward if present else 0.0) + discount * to_go
        answer.append(to_go)
    return np.array(answer[::-1])


def increments(levels, mask):
    """[S]: rise over the last observed level, 0 where nothing was observed."""
    last, answer = 0.0, []
    for level, present in zip(levels, mask, strict=True):
        answer.append(level - last if present else 0.0)
        last = level if present else last
    return np.array(answer)


def compare(values, population, *, baseline="mean", ddof=0, divisor=None):
    """([G], silent): values minus the baseline of the population, divided.

    ``divisor`` None means the deviation of the population's own values.
    """
    members = [i for i, present in enumerate(population) if present]
    known = [float(values[i]) for i in members]
    answer = np.zeros(len(values))
    if len(known) < 2 or max(known) - min(known) < 1e-6:
        return answer, True
    mean = sum(known) / len(known)
    if divisor is None:
        squares = sum((value - mean) ** 2 for value in known)
        divisor = math.sqrt(squares / (len(known) - ddof))
    for i in members:
        others = [float(values[j]) for j in members if j != i]
        reference = mean if baseline == "mean" else sum(others) / len(others)
        answer[i] = (float(values[i]) - reference) / divisor
    return answer, False


def centred_ranks(values, population):
    """[G]: average rank of equals, moved and scaled to [-1/2, 1/2]."""
    members = [i for i, present in enumerate(population) if present]
    answer = np.zeros(len(values))
    for i in members:
        below = sum(values[j] < values[i] for j in members)
        equal = sum(values[j] == values[i] for j in members if j != i)
        rank = below + equal / 2
        answer[i] = rank / (len(members) - 1) - 0.5 if len(members) > 1 else 0.0
    return answer


def fill_stopped(rewards, reward_mask, acted, *, fill, rewarded):
    """(values, population), [G, S] each; see the function of that name."""
    members, stages = acted.shape
    values = np.zeros((members, stages))
    population = np.zeros((members, stages), bool)
    for g in range(members):
        for s in range(stages):
            if acted[g, s]:
                population[g, s] = reward_mask[g, s]
                values[g, s] = rewards[g, s] if reward_mask[g, s] else 0.0
            elif rewarded[s] and fill != "reached" and not acted[g, s:].any():
                before = [k for k in range(s) if acted[g, k] and rewarded[k]]
                if before and reward_mask[g, before[-1]]:
                    population[g, s] = True
                    carried = rewards[g, before[-1]]
                    values[g, s] = carried if fill == "carry_forward" else 0.0
    return values, population


def log_softmax(logits):
    """Over the last axis."""
    logits = np.asarray(logits, np.float64)
    peak = logits.max(axis=-1, keepdims=True)
    return logits - peak - np.log(np.exp(logits - peak).sum(-1, keepdims=True))


def token_log_probs(hidden, unembedding, targets, temperature):
    """(log-prob of each target, entropy), [T] each, by way of all logits [T, V]."""
    logits = np.asarray(hidden, np.float64) @ np.asarray(unembedding, np.float64).T
    logs = log_softmax(logits / temperature)
    picked = np.array([row[target] for row, target in zip(logs, targets, strict=True)])
    return picked, -(np.exp(logs) * logs).sum(-1)


def clipped_loss(log_prob, anchor, advantage, low, high, max_ratio=math.inf):
    """PPO's loss of one token, with the dual clip if ``max_ratio`` is given."""
    ratio = math.exp(log_prob - anchor)
    inside = min(max(ratio, 1 - low), 1 + high)
    gain = min(ratio * advantage, inside * advantage)
    return -max(gain, max_ratio * advantage) if advantage < 0 else -gain


def segment_ratio(log_probs, anchor, mask, segments, column, *, normalised):
    """Ratio of the whole segment that the token in ``column`` belongs to."""
    logs = [
        log_probs[t] - anchor[t]
        for t in range(len(mask))
        if mask[t] and segments[t] == segments[column]
    ]
    total = sum(logs) / len(logs) if normalised else sum(logs)
    return math.exp(total)


def aggregate(losses, mask, mode, constant=None):
    """One number from losses [B, T]: the loss of a batch."""
    rows = [
        [loss for loss, real in zip(row, real_row, strict=True) if real]
        for row, real_row in zip(losses, mask, strict=True)
    ]
    total = sum(sum(row) for row in rows)
    filled = [row for row in rows if row]
    return {
        "constant": lambda: total / (len(rows) * constant),
        "token_mean": lambda: total / sum(len(row) for row in rows),
        "sequence_mean_token_mean": lambda: (
            sum(sum(row) / len(row) for row in filled) / len(filled)
        ),
        "sequence_mean_token_sum": lambda: total / len(filled),
    }[mode]()


def slope(stage_rewards, verdicts, masks):
    """Regression slope of verdicts on stage rewards, both centred within each group."""
    product, square = 0.0, 0.0
    for rewards, outcomes, mask in zip(stage_rewards, verdicts, masks, strict=True):
        known = [i for i, present in enumerate(mask) if present]
        if len(known) < 2:
            continue
        mean_reward = sum(rewards[i] for i in known) / len(known)
        mean_outcome = sum(outcomes[i] for i in known) / len(known)
        for i in known:
            centred = rewards[i] - mean_reward
            product += centred * (outcomes[i] - mean_outcome) / len(known)
            square += centred**2 / len(known)
    return product / square
