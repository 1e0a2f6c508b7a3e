// ft plan --parameters X --ranks N: bytes per rank by ZeRO's formulas, as papers and documentation state
// them, beside ft's own numbers.
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/plan/plan.h"
#include "app/screen/format.h"
#include "engine/files/json.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/zero/formula.h"

namespace ft {

Exit plan_by_formula(const PlanArgs& args) {
  if (args.speeds != GivenSpeeds{})
    throw UserError(Exit::config, "ft plan: --disk, --pcie and --flops are for a run, not for --parameters");
  const double ranks = args.ranks > 0 ? static_cast<double>(args.ranks) : 1;
  const auto gb = [&](int stage, StateBytes b) {
    return state_bytes(ZeroStage::of(stage), ranks, args.parameters, b) / 1e9;
  };
  const auto optimizer = make_optimizer({});  // AdamW
  const auto states = optimizer->states({});
  const StateBytes bf16 = bytes_of(DType::bf16, states), f32 = bytes_of(DType::f32, states);
  Json all = Json::array();
  std::cout << (args.json
                    ? ""
                    : str("GB per rank for values, gradients and Adam's states of ",
                          show::quantity(args.parameters), " trained parameters on ", ranks,
                          " ranks\nstage   the paper's (2 + 2 + 12 bytes)   ft in bf16 (2 + 4 + 12)   ft in "
                          "f32 (4 + 4 + 8)\n"));
  for (int stage = 0; stage < 4; ++stage) {
    const std::array<double, 3> row{gb(stage, kMixedPaper), gb(stage, bf16), gb(stage, f32)};
    all.push_back({{"stage", stage}, {"paper", row[0]}, {"bf16", row[1]}, {"f32", row[2]}});
    if (args.json) continue;
    std::cout << stage;
    for (const auto& [gigabytes, width] :
         {std::pair{row[0], 37}, std::pair{row[1], 26}, std::pair{row[2], 24}}) {
      const std::string text = show::fixed(gigabytes, 1);
      std::cout << std::string(static_cast<std::size_t>(width) - text.size(), ' ') << text;
    }
    std::cout << "\n";
  }
  if (args.json) std::cout << json_text(all, -1) << "\n";
  return Exit::done;
}

}  // namespace ft
