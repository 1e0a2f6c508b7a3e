#include "app/assembly/fp8_products.h"

#include "engine/core/error.h"
#include "engine/layers/linear.h"
#include "engine/ops/fp8_room.h"

namespace ft {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw UserError(Exit::config, str("training.fp8: ", why, "; set training.fp8=false"));
}

void require_products(const Fp8Weight& w, bool on_gpu) {
  if (w.scheme.cols != 0)
    refuse(str("products in FP8 need one scale for each output of a weight, and ", w.codes.name,
               " has one for each block of ", w.scheme.rows, " x ", w.scheme.cols));
  if (on_gpu && (w.shape[0] % kFp8Unit != 0 || w.shape[1] % kFp8Unit != 0))
    refuse(str("products in FP8 on a GPU need sizes that are multiples of ", kFp8Unit, ", and ", w.codes.name,
               " is ", w.shape[0], " x ", w.shape[1]));
}

}  // namespace

void multiply_in_fp8(const BuiltModel& b, const RunConfig& config) {
  if (!config.training.fp8) return;
  bool found = false;
  EachLinear each([&](Linear& l) {
    auto* w = dynamic_cast<Fp8Weight*>(l.weight.get());
    if (!w) return;
    require_products(*w, config.on_gpu());
    w->rows_in_fp8 = found = true;
  });
  b.model().visit(each);
  if (!found && b.purpose.trains())
    throw UserError(Exit::config,
                    "training.fp8: no weight of the model is in FP8; set model.frozen_dtype=fp8, or "
                    "training.fp8=false");
}

}  // namespace ft
