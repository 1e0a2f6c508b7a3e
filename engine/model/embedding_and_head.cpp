#include "engine/model/embedding_and_head.h"

namespace ft {
namespace {

std::string unit_of(const Embedding& e) { return e.weight.name.substr(0, e.weight.name.rfind('.')); }

}  // namespace

// Holds the head's unit, and the embedding's too if the head uses its table.
struct EmbeddingAndHead::HeadUse {
  HeadUse(const EmbeddingAndHead& v, Ctx& c, ParameterStore& store, bool backward)
      : head(store, v.head_unit_, backward) {
    if (v.tied_) table.emplace(store, v.embedding_unit_, backward);
    if (v.head.projects()) v.head.lm_head.weight->prepare(c);
  }
  Use head;
  std::optional<Use> table;
};

void EmbeddingAndHead::tie() {
  head.lm_head.weight = std::make_unique<TiedWeight>(embedding);
  tied_ = true;
}

void EmbeddingAndHead::untie() {
  if (!tied_) return;
  Parameter table = embedding.weight;
  table.name = head.lm_head.name + ".weight";
  table.stored_as = embedding.weight.stored_name();
  table.embedding = false;
  head.lm_head.weight = std::make_unique<DenseWeight>(std::move(table));
  tied_ = false;
}

Parameter& EmbeddingAndHead::train_rows(Parameter values, std::vector<std::int32_t> ids) {
  embedding.trained = std::make_unique<TokenRows>(TokenRows{std::move(values), std::move(ids)});
  return embedding.trained->values;
}

Parameter& EmbeddingAndHead::train_head_rows(Parameter values, std::vector<std::int32_t> ids) {
  require(!tied_, "rows of a head that has no table of its own");
  auto& dense = dynamic_cast<DenseWeight&>(*head.lm_head.weight);
  auto weight =
      std::make_unique<WeightWithRows>(std::move(dense), TokenRows{std::move(values), std::move(ids)});
  Parameter& trained = weight->rows.values;
  head.lm_head.weight = std::move(weight);
  return trained;
}

void EmbeddingAndHead::adapt_embedding(std::unique_ptr<EmbeddingAdapter> adapter) {
  embedding.adapter = std::move(adapter);
}

void EmbeddingAndHead::score_instead(const std::string& name, std::int64_t labels, bool bias) {
  head.lm_head = make_linear(name, embedding.weight.shape[1], labels, bias, embedding.weight.dtype);
  head.kind = HeadKind::scores;
  head.scale = 1;  // both apply to logits only
  head.cap = 0;
  tied_ = false;
}

void EmbeddingAndHead::embed_instead() {
  head.kind = HeadKind::states;
  tied_ = false;
}

void EmbeddingAndHead::cut(TensorRank t) {
  embedding.cut(t);
  if (head.kind == HeadKind::vocabulary) head.lm_head.share(Cut::columns, t);
}

void EmbeddingAndHead::keep_stages(const std::vector<Stage>& chunks) {
  embeds_ = chunks.front().first();
  has_head_ = chunks.back().last();
  if (!tied_ || embeds_ == has_head_) return;
  for (Parameter* p : shared()) {
    p->at_both_ends = true;
    p->copied = p->copied || has_head_;
  }
}

std::vector<Parameter*> EmbeddingAndHead::shared() {
  std::vector<Parameter*> all{&embedding.weight};
  if (embedding.trained) all.push_back(&embedding.trained->values);
  if (!embedding.adapter || !head.lm_head.adapter || head.lm_head.adapter->owns_parameters()) return all;
  EachParameter each([&](Parameter& p) { all.push_back(&p); });
  embedding.adapter->visit(each);
  return all;
}

void EmbeddingAndHead::visit_embedding(Visitor& v) {
  v.unit(unit_of(embedding));
  embedding.visit(v);
}

void EmbeddingAndHead::visit_head(Visitor& v) {
  v.unit(head.lm_head.name);
  head.visit(v);
}

void EmbeddingAndHead::add_embedding(ParameterStore& store) {
  std::vector<Parameter*> used;
  if (embeds_) used = parameters_of(embedding);
  if (!embeds_ && has_head_ && tied_) used = shared();
  if (!used.empty()) embedding_unit_ = store.add_unit(unit_of(embedding), used);
}

void EmbeddingAndHead::add_head(ParameterStore& store) {
  if (has_head_) head_unit_ = store.add_unit(head.lm_head.name, parameters_of(head));
}

std::vector<int> EmbeddingAndHead::embedding_units() const {
  return embeds_ ? std::vector{embedding_unit_} : std::vector<int>{};
}

std::vector<int> EmbeddingAndHead::head_units() const {
  if (!has_head_) return {};
  return tied_ ? std::vector{head_unit_, embedding_unit_} : std::vector{head_unit_};
}

Tensor EmbeddingAndHead::embed(Ctx& c, ParameterStore& store, Tensor ids, Tensor positions) const {
  Use use(store, embedding_unit_, false);
  Tensor x = c.save(ids.numel(), embedding.width());
  embedding.forward(c, x, ids, positions);
  return x;
}

void EmbeddingAndHead::embed_backward(Ctx& c, ParameterStore& store, Tensor d, Tensor ids, bool complete,
                                      Tensor positions) const {
  Use use(store, embedding_unit_, true);
  embedding.backward(c, d, ids, positions);
  store.reduce(embedding_unit_, complete);
}

void EmbeddingAndHead::forward(Ctx& c, ParameterStore& store, Tensor x, const Targets& t,
                               const Loss& loss) const {
  HeadUse use(*this, c, store, false);
  head.forward(c, x, t, loss);
}

Tensor EmbeddingAndHead::forward_backward(Ctx& c, ParameterStore& store, Tensor x, const Targets& t,
                                          const Loss& loss) const {
  Tensor d = c.temporary(x.rows(), x.cols());
  HeadUse use(*this, c, store, true);
  head.forward_backward(c, d, x, t, loss);
  store.reduce(head_unit_, true);
  if (tied_) store.reduce(embedding_unit_, !embeds_);
  return d;
}

// Keeps the head's weights fetched while it lives.
class EmbeddingAndHead::HeldHead final : public TargetLogits {
 public:
  HeldHead(const EmbeddingAndHead& of, Ctx& c, ParameterStore& store, Tensor x, Tensor rows)
      : use_(of, c, store, false), head_(of.head), x_(x), rows_(rows) {}
  void write(Ctx& c, Tensor logits, std::int64_t begin) const override {
    const std::int64_t bytes = size_of(rows_.dtype);
    head_.logits(c, logits, x_, Tensor{rows_.data + begin * bytes, rows_.dtype, {logits.rows()}});
  }

 private:
  HeadUse use_;
  const Head& head_;
  Tensor x_, rows_;
};

std::unique_ptr<TargetLogits> EmbeddingAndHead::target_logits(Ctx& c, ParameterStore& store, Tensor x,
                                                              Tensor rows) const {
  return std::make_unique<HeldHead>(*this, c, store, x, rows);
}

void EmbeddingAndHead::logits(Ctx& c, ParameterStore& store, Tensor y, Tensor x, Tensor rows) const {
  const int ranks = c.pipeline() ? c.pipeline()->size() : 1;
  if (!has_head_) return exchange_states(c, {}, 0, {y}, ranks - 1, "logits");
  {
    HeadUse use(*this, c, store, false);
    head.logits(c, y, x, rows);
  }
  for (int r = 0; r + 1 < ranks; ++r) exchange_states(c, {y}, r, {}, 0, "logits");
}

}  // namespace ft
