#include "lora/choice.h"

#include <algorithm>
#include <cstring>

#include "engine/layers/sum.h"
#include "lora/choice_rules.h"

namespace ft::lora {
namespace {

constexpr const char* kFromTokensOn = "alora_invocation_tokens";  // ft merge refuses such an adapter

}  // namespace

std::string shared_part(const LoraConfig& c, const AdapterFolder& folder, const std::string& embedding) {
  if (c.use_dora) return "use_dora";
  if (c.lora_bias) return "lora_bias";
  if (c.alora_invocation_tokens) return kFromTokensOn;
  if (!c.peft_type->by_request) return str("peft_type ", c.peft_type->peft_type);
  if (c.modules_to_save && !c.modules_to_save->empty()) return "modules_to_save";
  if (c.bias != LoraBias::none) return "bias";
  if (!trained_tokens(c.trainable_token_indices, "", Exit::input).empty()) return "trainable_token_indices";
  if (start_of(c.init_lora_weights)->changes_base()) return "init_lora_weights";
  if (folder.rows_of(embedding, embedding) > 0) return "an embedding of its own";
  return "";
}

void refuse_choice(const AdapterFolder& folder, const std::string& what) {
  const bool merges = what != kFromTokensOn;
  throw UserError(Exit::input, str(folder.config_file(), ": ", what, " cannot be chosen by requests; ",
                                   merges ? "ft merge makes a model of it, which is served alone"
                                          : "ft chat and ft generate use it"));
}

// All adapters of one Linear.
class AdapterChoice::OfLinear final : public Adapter {
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
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const override { refuse_training(); }
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const override { refuse_training(); }

 private:
  struct Part {
    std::int32_t number;
    std::unique_ptr<LinearAdapter> adapter;
  };
  [[noreturn]] static void refuse_training() { throw InternalError("a choice of adapters is not trained"); }
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

AdapterChoice::~AdapterChoice() = default;

AdapterChoice::AdapterChoice(Model& model, const std::vector<Named>& all, DType dtype,
                             const std::string& head, const std::string& embedding, const Slots& slots)
    : head_(head), embedding_(embedding), slots_(slots), rows_(std::make_shared<std::vector<AdapterRows>>()) {
  attach_named(model, all, dtype);
  attach_slots(model, static_cast<std::int32_t>(all.size()), dtype);
  for (auto& [linear, adapters] : chosen_) linear->adapter = std::move(adapters);
  chosen_.clear();
}

// Takes the adapter that a Linear has just got, and gives its parameters new names.
void AdapterChoice::take(Linear& l, std::int32_t number, const std::string& name,
                         const AdapterFolder* folder) {
  std::unique_ptr<LinearAdapter> own(&dynamic_cast<LinearAdapter&>(*l.adapter.release()));
  for (Parameter* p : own->trained()) {
    const std::string unique = str(name, ":", p->name);
    require(stored_.emplace(unique, Stored{folder, p->name}).second, "two adapters with one name");
    p->name = unique;
    p->trainable = false;
  }
  auto& of = chosen_[&l];
  if (!of) of = std::make_unique<OfLinear>(rows_);
  of->add(number, std::move(own));
}

void AdapterChoice::attach_named(Model& model, const std::vector<Named>& all, DType dtype) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    folders_.push_back(std::make_unique<AdapterFolder>(all[i].folder));
    const AdapterFolder& folder = *folders_.back();
    if (const std::string what = shared_part(folder.config(), folder, embedding_); !what.empty())
      refuse_choice(folder, what);
    const Origin origin{.prefix = folder.config_file() + ": ",
                        .exit = Exit::input,
                        .every_target = false,
                        .single_experts = folder.has_single_experts(),
                        .head = head_,
                        .embedding = std::string(parent_of(embedding_))};
    const Attached attached = ft::lora::attach(model, folder.config(), dtype, origin);
    if (!attached.experts.empty() || attached.single_experts) refuse_choice(folder, "an adapter of experts");
    if (attached.embedding) refuse_choice(folder, "an adapter of " + attached.embedding_module);
    folder.expect(attached, {});
    EachLinear each([&](Linear& l) {
      if (!l.adapter) return;
      if (l.name == head_) refuse_choice(folder, "an adapter of " + head_);
      take(l, static_cast<std::int32_t>(i), all[i].name, &folder);
    });
    model.visit(each);
  }
}

void AdapterChoice::attach_slots(Model& model, std::int32_t first, DType dtype) {
  LoraConfig config;
  config.r = slots_.rank;
  config.lora_alpha = static_cast<double>(slots_.rank);  // so that the scale is 1
  const Origin origin{
      .prefix = "adapters by request: ", .head = head_, .embedding = std::string(parent_of(embedding_))};
  for (std::int32_t slot = 0; slot < slots_.count; ++slot) {
    ft::lora::attach(model, config, dtype, origin);
    std::vector<OfSlot>& own = of_slots_.emplace_back();
    EachLinear each([&](Linear& l) {
      if (!l.adapter) return;
      auto& adapter = dynamic_cast<LoraAdapter&>(*l.adapter);
      own.push_back({&adapter.a, &adapter.b, adapter.a.name, adapter.b.name});
      take(l, first + slot, str("slot ", slot, " for requests"), nullptr);
    });
    model.visit(each);
  }
}

void AdapterChoice::set_rows(std::span<const AdapterRows> rows) { rows_->assign(rows.begin(), rows.end()); }

void AdapterChoice::read(const Parameter& p, Tensor y, std::int64_t first) const {
  const Stored& stored = stored_.at(p.name);
  if (!stored.folder) {
    std::memset(y.data, 0, static_cast<std::size_t>(y.bytes()));
    return;
  }
  stored.folder->read({.name = stored.name, .shape = p.shape}, y, first);
}

}  // namespace ft::lora
