#include "app/plan/step_cost.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"

namespace ft {
namespace {

std::string speed_text(double a_second) {
  return show::file_size(static_cast<std::int64_t>(a_second)) + "/s";
}

std::string files_text(const StepCost& c) {
  const Speeds& s = c.speeds;
  if (c.moved.read + c.moved.written == 0) return "";
  std::string text = str("files: ", show::memory(c.moved.read), " read and ", show::memory(c.moved.written),
                         " written per step by each rank");
  if (c.files == 0)
    return text + str("; the speed is unknown", s.files_from.empty() ? "" : " (" + s.files_from + ")",
                      ": give --disk, such as 2GB/s\n");
  text += str(": ", show::duration(c.files), " at ", speed_text(s.read));
  if (s.read != s.write) text += str(" and ", speed_text(s.write));
  return text + str(", ", s.files_from, "\n");
}

std::string pcie_text(const StepCost& c) {
  if (c.moved.to_device + c.moved.to_host == 0) return "";
  const std::string text = str("host memory: ", show::memory(c.moved.to_device), " to the GPU and ",
                               show::memory(c.moved.to_host), " back per step by each rank");
  if (c.pcie == 0) return text + "; the speed is unknown: give --pcie, such as 50GB/s\n";
  return text + str(": ", show::duration(c.pcie), " at ", speed_text(c.speeds.pcie), ", given\n");
}

std::string arithmetic_text(const StepCost& c) {
  if (c.arithmetic == 0) return "arithmetic: the speed is unknown: give --flops, such as 100TFLOPS\n";
  return str("arithmetic: ", show::duration(c.arithmetic), " per step at ",
             show::digits(c.speeds.flops / 1e12), " TFLOP/s, ", c.speeds.flops_from, "\n");
}

std::string bound_text(const StepCost& c) {
  const char* bound = c.bound();
  if (!bound) return "";
  std::string from = c.length > 0 ? str(c.length_setting, " ", show::count(c.length), " or ") : "";
  from += str("per_device_train_batch_size ", show::count(c.batch), " on\n");
  if (c.arithmetic >= c.moving()) return "arithmetic bounds the step, from " + from;
  return str(c.files >= c.pcie ? "the files bound" : "PCIe bounds", " the step; arithmetic does from ", from);
}

}  // namespace

double StepCost::moving() const {
  const bool files_known = files > 0 || moved.read + moved.written == 0,
             pcie_known = pcie > 0 || moved.to_device + moved.to_host == 0;
  return files_known && pcie_known ? std::max(files, pcie) : 0;
}

const char* StepCost::bound() const {
  if (moving() == 0 || arithmetic == 0) return nullptr;
  if (arithmetic >= moving()) return "arithmetic";
  return files >= pcie ? "files" : "pcie";
}

StepCost step_cost(const RunConfig& config, const Planned& p, Room room, const Speeds& speeds) {
  const auto accumulation = static_cast<double>(config.training.gradient_accumulation_steps);
  StepCost c{.moved = p.plan.per_step(config.training.gradient_accumulation_steps).moved, .speeds = speeds};
  const auto bytes = [](std::int64_t n) { return static_cast<double>(n); };
  if (speeds.read > 0 && speeds.write > 0)
    c.files = bytes(c.moved.read) / speeds.read + bytes(c.moved.written) / speeds.write;
  // The two directions run at the same time.
  if (speeds.pcie > 0) c.pcie = bytes(std::max(c.moved.to_device, c.moved.to_host)) / speeds.pcie;
  if (speeds.flops > 0) c.arithmetic = p.plan.computed * accumulation / speeds.flops;
  if (!c.bound()) return c;
  const auto batch = static_cast<double>(config.training.per_device_train_batch_size);
  if (p.largest.source_tokens > 0) c.length_setting = "max_source_length";
  c.batch = std::max<std::int64_t>(1, std::llround(std::ceil(batch * c.moving() / c.arithmetic)));
  c.length = shortest_that_computes(config, room, c.moving() * speeds.flops / accumulation);
  return c;
}

std::string as_text(const StepCost& c) {
  return files_text(c) + pcie_text(c) + arithmetic_text(c) + bound_text(c);
}

void add_to(Json& j, const StepCost& c) {
  const auto known = [](auto x) { return x > 0 ? Json(x) : Json(); };
  j["read_per_step"] = c.moved.read;
  j["written_per_step"] = c.moved.written;
  j["files_seconds_per_step"] = known(c.files);
  j["to_device_per_step"] = c.moved.to_device;
  j["to_host_per_step"] = c.moved.to_host;
  j["pcie_seconds_per_step"] = known(c.pcie);
  j["arithmetic_seconds_per_step"] = known(c.arithmetic);
  j["bound"] = c.bound() ? Json(c.bound()) : Json();
  j["arithmetic_from_max_seq_length"] = known(c.length);
  j["arithmetic_from_batch_size"] = known(c.batch);
}

}  // namespace ft
