// Writes a profile as JSON, with the full name of every module.
#include <nlohmann/json.hpp>

#include "app/profile/step_profile.h"
#include "engine/files/json.h"

namespace ft {
namespace {

Json cost(const Cost& c) { return {{"flops", c.flops}, {"macs", c.flops / 2}, {"seconds", c.seconds}}; }

Json costs(const StepProfile& p, const ModuleProfile& m) {
  return {{"parameters", m.parameters},
          {"trained_parameters", m.trained},
          {"weight_bytes", m.weights},
          {"activation_bytes", m.kept},
          {"forward", cost(m.forward)},
          {"recompute", cost(m.recompute)},
          {"backward", cost(m.backward)},
          {"of_peak", p.share_of_peak(m.flops() + m.recompute.flops, m.seconds())}};
}

}  // namespace

std::string as_json(const StepProfile& p) {
  Json j = costs(p, p.modules);
  j["step"] = p.step;
  j["tokens"] = p.tokens;
  j["ranks"] = p.ranks;
  j["architecture"] = p.architecture;
  j["flops"] = p.flops();
  j["seconds"] = p.seconds();
  j["flops_per_second"] = p.seconds() > 0 ? p.flops() / p.seconds() : 0;
  j["peak_flops"] = p.peak_flops > 0 ? Json(p.peak_flops) : Json();
  j["of_peak"] = p.share_of_peak(p.flops(), p.seconds());
  j["gaps"] = p.gaps;
  for (const Phase phase : kStepPhases) j["wall_clock"][name_of(phase)] = p.seconds(phase);
  j["modules"] = Json::array();
  each_module(p.modules, [&](const ModuleProfile& m, std::int64_t depth) {
    if (depth == 0) return;
    Json row = costs(p, m);
    row["name"] = m.name;
    row["depth"] = depth;
    j["modules"].push_back(std::move(row));
  });
  return json_text(j, -1);
}

}  // namespace ft
