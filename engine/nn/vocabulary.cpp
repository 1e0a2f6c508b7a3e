#include "engine/nn/vocabulary.h"

namespace ft {
namespace {

std::string unit_of(const Embedding& e) { return e.weight.name.substr(0, e.weight.name.rfind('.')); }

}  // namespace

// The head's unit, and the embedding's where the head uses its table.
struct Vocabulary::HeadUse {
  HeadUse(const Vocabulary& v, ParameterStore& store, bool backward) : head(store, v.head_unit_, backward) {
    if (v.tied_) table.emplace(store, v.embedding_unit_, backward);
  }
  Use head;
  std::optional<Use> table;
};

void Vocabulary::tie() {
  head.lm_head.weight = std::make_unique<TiedWeight>(embedding.weight);
  tied_ = true;
}

void Vocabulary::untie() {
  if (!tied_) return;
  Parameter table = embedding.weight;
  table.name = head.lm_head.name + ".weight";
  table.stored_as = embedding.weight.stored_name();
  head.lm_head.weight = std::make_unique<DenseWeight>(std::move(table));
  tied_ = false;
}

void Vocabulary::visit_embedding(Visitor& v) {
  v.unit(unit_of(embedding));
  embedding.visit(v);
}

void Vocabulary::visit_head(Visitor& v) {
  v.unit(head.lm_head.name);
  head.visit(v);
}

void Vocabulary::add_embedding(ParameterStore& store) {
  embedding_unit_ = store.add_unit(unit_of(embedding), parameters_of(embedding));
}

void Vocabulary::add_head(ParameterStore& store) {
  head_unit_ = store.add_unit(head.lm_head.name, parameters_of(head));
}

std::vector<int> Vocabulary::head_units() const {
  return tied_ ? std::vector{head_unit_, embedding_unit_} : std::vector{head_unit_};
}

Tensor Vocabulary::embed(Ctx& c, ParameterStore& store, Tensor ids) const {
  Use use(store, embedding_unit_, false);
  Tensor x = c.save(ids.numel(), embedding.weight.shape[1]);
  embedding.forward(c, x, ids);
  return x;
}

void Vocabulary::embed_backward(Ctx& c, ParameterStore& store, Tensor d, Tensor ids, bool complete) const {
  Use use(store, embedding_unit_, true);
  embedding.backward(c, d, ids);
  store.reduce(embedding_unit_, complete);
}

void Vocabulary::forward(Ctx& c, ParameterStore& store, Tensor loss, Tensor x, const Targets& t) const {
  HeadUse use(*this, store, false);
  head.forward(c, loss, x, t, 0);
}

Tensor Vocabulary::forward_backward(Ctx& c, ParameterStore& store, Tensor loss, Tensor x, const Targets& t,
                                    float loss_scale, float smoothing) const {
  Tensor d = c.temporary(x.rows(), x.cols());
  HeadUse use(*this, store, true);
  head.forward_backward(c, loss, d, x, t, loss_scale, smoothing);
  store.reduce(head_unit_, true);
  if (tied_) store.reduce(embedding_unit_, false);
  return d;
}

void Vocabulary::logits(Ctx& c, ParameterStore& store, Tensor y, Tensor x, Tensor rows) const {
  HeadUse use(*this, store, false);
  head.logits(c, y, x, rows);
}

}  // namespace ft
