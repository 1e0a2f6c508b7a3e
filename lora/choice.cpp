#include "lora/choice.h"

#include <algorithm>

#include "engine/layers/sum.h"

namespace ft::lora {
namespace {

// All adapters of one Linear.
class OfLinear final : public Adapter {
 public:
  using Rows = std::shared_ptr<const std::vector<AdapterRows>>;
  explicit OfLinear(Rows rows) : rows_(std::move(rows)) {}
  void add(std::int32_t number, std::unique_ptr<LinearAdapter> adapter) {
    width_ += adapter->width();
    parts_.push_back({number, std::move(adapter)});
  }

  std::int64_t width() const override { return width_; }
  void down(Ctx& c, Tensor u, Tensor x) const override {
    c.ops.run(op::Fill{u, 0});
    each(u, [&](const Part& p, Tensor own) {
      for (const AdapterRows& r : *rows_) {
        require(r.end <= x.rows(), "rows of adapters that this Linear does not see");
        if (r.adapter == p.number) p.adapter->down(c, own.slice(r.begin, r.end), x.slice(r.begin, r.end));
      }
    });
  }
  void up(Sum& y, Tensor u) const override {
    each(u, [&](const Part& p, Tensor own) { p.adapter->up(y, own); });
  }
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  void visit_down(Visitor& v) override {
    for (const Part& p : parts_) p.adapter->visit_down(v);
  }
  void visit_up(Visitor& v) override {
    for (const Part& p : parts_) p.adapter->visit_up(v);
  }
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const override { refuse(); }
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const override { refuse(); }

 private:
  struct Part {
    std::int32_t number;
    std::unique_ptr<LinearAdapter> adapter;
  };
  [[noreturn]] static void refuse() { throw InternalError("a choice of adapters is not trained"); }
  // Calls f(part, its columns of u).
  void each(Tensor u, auto f) const {
    std::int64_t begin = 0;
    for (const Part& p : parts_) {
      const std::int64_t end = begin + p.adapter->width();
      f(p, u.columns(begin, end));
      begin = end;
    }
  }

  Rows rows_;
  std::vector<Part> parts_;
  std::int64_t width_ = 0;
};

// Returns the setting of an adapter that would change computations that all rows share; "": there is none.
std::string shared_part(const LoraConfig& c, const AdapterFolder& folder, const std::string& embedding) {
  if (c.use_dora) return "use_dora";
  if (c.lora_bias) return "lora_bias";
  if (c.alora_invocation_tokens) return "alora_invocation_tokens";
  if (!c.peft_type->by_request) return str("peft_type ", c.peft_type->peft_type);
  if (c.modules_to_save && !c.modules_to_save->empty()) return "modules_to_save";
  if (c.bias != LoraBias::none) return "bias";
  if (!trained_tokens(c.trainable_token_indices, "", Exit::input).empty()) return "trainable_token_indices";
  if (start_of(c.init_lora_weights)->changes_base()) return "init_lora_weights";
  if (folder.rows_of(embedding, embedding) > 0) return "an embedding of its own";
  return "";
}

}  // namespace

AdapterChoice::AdapterChoice(Model& model, const std::vector<Named>& all, DType dtype,
                             const std::string& head, const std::string& embedding)
    : rows_(std::make_shared<std::vector<AdapterRows>>()) {
  std::map<Linear*, std::unique_ptr<OfLinear>> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    folders_.push_back(std::make_unique<AdapterFolder>(all[i].folder));
    const AdapterFolder& folder = *folders_.back();
    const auto refuse = [&](const std::string& what) {
      throw UserError(
          Exit::input,
          str(folder.config_file(), ": ", what,
              " cannot be chosen by requests; ft merge makes a model of it, which is served alone"));
    };
    if (const std::string what = shared_part(folder.config(), folder, embedding); !what.empty()) refuse(what);
    const Origin origin{.prefix = folder.config_file() + ": ",
                        .exit = Exit::input,
                        .every_target = false,
                        .single_experts = folder.has_single_experts(),
                        .head = head,
                        .embedding = std::string(parent_of(embedding))};
    const Attached attached = ft::lora::attach(model, folder.config(), dtype, origin);
    if (!attached.experts.empty() || attached.single_experts) refuse("an adapter of experts");
    if (attached.embedding) refuse("an adapter of " + attached.embedding_module);
    folder.expect(attached, {});
    EachLinear take([&](Linear& l) {
      if (!l.adapter) return;
      if (l.name == head) refuse("an adapter of " + head);
      std::unique_ptr<LinearAdapter> own(&dynamic_cast<LinearAdapter&>(*l.adapter.release()));
      for (Parameter* p : own->trained()) {
        const std::string name = str(all[i].name, ":", p->name);
        stored_.emplace(name, Stored{&folder, p->name});
        p->name = name;
        p->trainable = false;
      }
      auto& of = chosen[&l];
      if (!of) of = std::make_unique<OfLinear>(rows_);
      of->add(static_cast<std::int32_t>(i), std::move(own));
    });
    model.visit(take);
  }
  for (auto& [linear, adapters] : chosen) linear->adapter = std::move(adapters);
}

void AdapterChoice::set_rows(std::span<const AdapterRows> rows) { rows_->assign(rows.begin(), rows.end()); }

void AdapterChoice::read(const Parameter& p, Tensor y, std::int64_t first) const {
  const Stored& stored = stored_.at(p.name);
  stored.folder->read({.name = stored.name, .shape = p.shape}, y, first);
}

}  // namespace ft::lora
