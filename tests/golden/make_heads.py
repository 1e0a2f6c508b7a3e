#!/usr/bin/env python3
"""Makes heads.json: losses of models that classify or embed, with their gradients, by PyTorch, transformers and
sentence-transformers, f64, on a CPU.

    V/bin/python make_heads.py
"""
import json
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sklearn.metrics import accuracy_score, f1_score
from transformers import LlamaConfig
from transformers.loss.loss_utils import ForSequenceClassificationLoss

torch.set_num_threads(1)
HERE = Path(__file__).parent
random = torch.Generator().manual_seed(5)


def values(*shape):
    return torch.randn(*shape, generator=random, dtype=torch.float32).double()


def classified(problem, labels, targets):
    scores = values(targets, labels).requires_grad_()
    if problem == "single_label_classification":
        wanted = torch.randint(labels, (targets,), generator=random)
    elif problem == "multi_label_classification":
        wanted = torch.randint(2, (targets, labels), generator=random).double()
    else:
        wanted = values(targets, labels)
    config = LlamaConfig(num_labels=labels, problem_type=problem)
    loss = ForSequenceClassificationLoss(wanted, scores, config) * targets
    loss.backward()
    found = scores.detach()
    if problem == "regression":
        pearson = [float(torch.corrcoef(torch.stack([found[:, k], wanted[:, k]]))[0, 1]) for k in range(labels)]
        measures = {"mse": float(((found - wanted) ** 2).mean()), "pearson": sum(pearson) / labels}
    else:
        said = found.argmax(1) if wanted.ndim == 1 else (found >= 0).long()
        measures = {"accuracy": accuracy_score(wanted, said), "f1_macro": f1_score(wanted, said, average="macro", zero_division=0)}
        if wanted.ndim == 2 and labels == 1:  # scikit-learn takes one column for two classes
            measures["f1_macro"] = measures["f1_micro"] = f1_score(wanted, said, average="binary")
        elif wanted.ndim == 2:
            measures["f1_micro"] = f1_score(wanted, said, average="micro", zero_division=0)
        elif labels == 2:
            measures["f1"] = f1_score(wanted, said)
    return {"problem_type": problem, "scores": found.tolist(), "labels": wanted.tolist(), "loss": float(loss),
            "gradient": scores.grad.tolist(), "measures": measures}


def contrasted(rows, negatives, width, scale, dims):
    texts = [values(rows, width).requires_grad_() for _ in range(2 + negatives)]
    of = MultipleNegativesRankingLoss(SentenceTransformer(modules=[torch.nn.Identity()]), scale=scale)
    # As MatryoshkaLoss: embeddings that are cut, and have length 1 again.
    loss = sum(of.compute_loss_from_embeddings([torch.nn.functional.normalize(t[:, :d], dim=1) for t in texts], None)
               for d in dims) * rows
    loss.backward()
    return {"scale": scale, "dims": dims, "anchors": texts[0].tolist(), "documents": [t.tolist() for t in texts[1:]],
            "loss": float(loss), "by_anchors": texts[0].grad.tolist(), "by_documents": [t.grad.tolist() for t in texts[1:]]}


classes = [classified("single_label_classification", 4, 9), classified("single_label_classification", 2, 8),
           classified("multi_label_classification", 3, 7), classified("multi_label_classification", 1, 6),
           classified("regression", 1, 6), classified("regression", 3, 5)]
contrasts = [contrasted(4, 0, 5, 20.0, [5]), contrasted(3, 2, 6, 7.0, [6]), contrasted(3, 1, 6, 20.0, [6, 4, 2])]
rounded = json.loads(json.dumps({"classes": classes, "contrasts": contrasts}), parse_float=lambda x: float(f"{float(x):.12g}"))
(HERE / "heads.json").write_text(json.dumps(rounded) + "\n")
