#include "app/assembly/fp8_products.h"

#include <set>

#include "engine/core/error.h"
#include "engine/layers/moe.h"
#include "engine/ops/fp8_room.h"
#include "lora/matching.h"

namespace ft {
namespace {

// Refuses products in FP8 with a linear's weight.
[[noreturn]] void refuse(const Linear& l, const std::string& need, const std::string& weight) {
  throw UserError(Exit::config, str("training.fp8: products in FP8 ", need, ", and ", weight, "; add \"",
                                    l.name, "\" to training.fp8_skip, or set training.fp8=false"));
}

void require_sizes(const Linear& l, const std::string& weight, const Shape& s) {
  if (s[0] % kFp8Unit == 0 && s[1] % kFp8Unit == 0) return;
  refuse(l, str("on a GPU need sizes that are multiples of ", kFp8Unit),
         str(weight, " is ", s[0], " x ", s[1]));
}

void require_scales(const Linear& l, const Fp8Weight& w) {
  if (w.scheme.cols == 0) return;
  refuse(l, "need one scale for each output of a weight",
         str(w.codes.name, " has one for each block of ", w.scheme.rows, " x ", w.scheme.cols));
}

// Says why no product is in FP8.
[[noreturn]] void refuse_none(const RunConfig& config) {
  if (!config.training.fp8_skip.empty())
    throw UserError(
        Exit::config,
        "training.fp8_skip: leaves no linear to training.fp8; name fewer, or set training.fp8=false");
  const bool full = config.finetuning_type == FinetuningType::full;
  throw UserError(Exit::config,
                  full ? "training.fp8: the model's blocks have no linear that is trained and can be "
                         "multiplied in FP8; set training.fp8=false"
                       : "training.fp8: no weight of the model is in FP8; set "
                         "model.frozen_dtype=fp8, or training.fp8=false");
}

// Chooses the linears.
class Chooser final : public Visitor {
 public:
  Chooser(const RunConfig& config, bool trains) : config_(config), trains_(trains) {}

  void unit(std::string_view) override { in_block_ = false; }
  void block(std::string_view) override { in_block_ = true; }
  void experts(Moe& m) override { routers_.insert(&m.gate); }
  void linear(Linear& l) override {
    if (is_skipped(l.name)) return;
    if (auto* fp8 = dynamic_cast<Fp8Weight*>(l.weight.get())) {
      require_scales(l, *fp8);
      if (config_.on_gpu()) require_sizes(l, fp8->codes.name, fp8->shape);
      fp8->rows_in_fp8 = found_ = true;
    } else if (auto* dense = dynamic_cast<DenseWeight*>(l.weight.get()); dense && is_trained_in_fp8(l)) {
      if (config_.on_gpu()) require_sizes(l, dense->parameter.name, dense->parameter.shape);
      dense->rows_in_fp8 = found_ = true;
    }
  }

  bool found() const { return found_; }
  // Throws UserError (config) if an entry of fp8_skip has named no linear of the model in `folder`.
  void require_all_used(const std::string& folder) const {
    for (const std::string& entry : config_.training.fp8_skip)
      if (!used_.contains(entry))
        throw UserError(Exit::config,
                        str("training.fp8_skip: no linear of ", folder, " is named by \"", printable(entry),
                            "\"; leave it out, or name one as in model.layers.0"));
  }

 private:
  bool is_skipped(const std::string& name) {
    bool skipped = false;
    for (const std::string& entry : config_.training.fp8_skip)
      if (lora::is_listed(name, entry, "training.fp8_skip", Exit::config)) {
        used_.insert(entry);
        skipped = true;
      }
    return skipped;
  }
  // Heads are no blocks; a gate with one output and a router, which choose, keep bf16's precision.
  bool is_trained_in_fp8(const Linear& l) const {
    return trains_ && config_.finetuning_type == FinetuningType::full && in_block_ && l.weight->trains() &&
           !l.wide && l.whole_out() > 1 && !routers_.contains(&l);
  }

  const RunConfig& config_;
  bool trains_, in_block_ = false, found_ = false;
  std::set<const Linear*> routers_;
  std::set<std::string> used_;
};

}  // namespace

void multiply_in_fp8(const BuiltModel& b, const RunConfig& config) {
  if (!config.training.fp8) return;
  Chooser chooser(config, b.purpose.trains());
  b.model().visit(chooser);
  chooser.require_all_used(b.folder);
  if (!chooser.found() && b.purpose.trains()) refuse_none(config);
}

}  // namespace ft
