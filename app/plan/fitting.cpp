#include "app/plan/fitting.h"

#include <algorithm>
#include <limits>
#include <set>

#include "app/plan/ways_out.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

struct Fitting {
  const BuiltData* data;
  Room room;

  // Returns the planned bytes of a rank. Settings that contradict one another return the largest number.
  std::int64_t total(const RunConfig& c) const {
    try {
      return planned(c, data, room).plan.memory.total;
    } catch (const UserError&) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }

  // Adds the setting for sequences of that length. Returns false if the length is 0.
  bool shorten(Fit& fit, const RunConfig& c, std::int64_t length) const {
    if (length == 0) return false;
    const Planned p = planned(c, nullptr, room, length);
    fit.settings.push_back(
        str(p.largest.source_tokens > 0 ? "data.max_source_length=" : "data.max_seq_length=", length));
    fit.total = p.plan.memory.total;
    return true;
  }

  // Tries 4-bit weights with offload_param. Use it for a LoRA run that fits only with offload_param: in 4
  // bits it moves a quarter of the bytes.
  bool all_packed(Fit& fit, const RunConfig& c, const std::vector<Fit>& alone) const {
    const auto moves = [](const Fit& f) { return f.settings[0].find("offload_param") != std::string::npos; };
    if (alone.empty() || !std::all_of(alone.begin(), alone.end(), moves)) return false;
    if (c.finetuning_type != FinetuningType::lora || c.quantization.load_in_4bit || !c.on_gpu()) return false;
    RunConfig packed = c;
    packed.quantization.load_in_4bit = true;
    packed.zero_optimization.offload_param.device = OffloadDevice::cpu;
    fit = {{"quantization.load_in_4bit=true zero_optimization.offload_param.device=cpu"},
           total(packed),
           "a quarter of the bytes move, and weights are rounded to 4 bits"};
    return fit.total <= room.there;
  }

  std::vector<Fit> alone(const RunConfig& c, std::int64_t longest) const {
    std::vector<Fit> all;
    for (const WayOut& way : ways_out(c, true))
      if (const std::int64_t t = total(way.config); t <= room.there)
        all.push_back({{way.setting}, t, way.cost});
    if (Fit packed; all_packed(packed, c, all)) all.push_back(packed);
    if (Fit shorter; shorten(shorter, c, longest)) {
      shorter.cost = "longer samples are cut";
      all.push_back(shorter);
    }
    return all;
  }

  std::vector<Fit> together(RunConfig c) const {
    Fit fit{.total = total(c)};
    std::set<std::string> tried;
    const auto helps = [&](const WayOut& way) {
      if (!tried.insert(way.setting).second) return false;
      const std::int64_t with = total(way.config);
      constexpr std::int64_t kWorthIt = 100;  // a setting must save at least a hundredth
      return with < fit.total - fit.total / kWorthIt && (fit.total = with, true);
    };
    while (fit.total > room.there) {
      const std::vector<WayOut> ways = ways_out(c, true);
      const auto way = std::find_if(ways.begin(), ways.end(), helps);
      if (way == ways.end()) break;
      const std::string name = way->setting.substr(0, way->setting.find('=') + 1);
      std::erase_if(fit.settings, [&](const std::string& taken) { return taken.starts_with(name); });
      fit.settings.push_back(way->setting);
      c = way->config;
    }
    if (fit.total > room.there && !shorten(fit, c, longest_that_fits(c, room))) return {};
    return {fit};
  }
};

}  // namespace

std::vector<Fit> fits(const RunConfig& c, const BuiltData* data, Room room, std::int64_t longest) {
  const Fitting fitting{data, room};
  std::vector<Fit> alone = fitting.alone(c, longest);
  return alone.empty() ? fitting.together(c) : alone;
}

std::string fits_text(const std::vector<Fit>& fits) {
  if (fits.empty()) return "it does not fit, even with the settings that save memory\n";
  const bool together = fits[0].settings.size() > 1;
  std::string text =
      str("it does not fit; it would fit with", together ? " all of these together" : "", "\n");
  for (const Fit& fit : fits) {
    for (std::size_t i = 0; i + 1 < fit.settings.size(); ++i) text += "  " + fit.settings[i] + "\n";
    text += str("  ", fit.settings.back(), "  ", together ? "-> " : "", show::memory(fit.total),
                fit.cost.empty() ? "" : "  (" + fit.cost + ")", "\n");
  }
  return text;
}

}  // namespace ft
