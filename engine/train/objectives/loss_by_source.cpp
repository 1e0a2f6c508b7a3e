#include "engine/train/objectives/loss_by_source.h"

#include <algorithm>
#include <utility>

#include "engine/core/require.h"
#include "engine/ops/ops.h"

namespace ft {

LossBySource::LossBySource(const ReportedSources& sources) {
  const auto group_of = [&](const std::string& name) -> std::int32_t {
    if (name.empty()) return -1;
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) names_.push_back(name);
    return static_cast<std::int32_t>(std::ranges::find(names_, name) - names_.begin());
  };
  for (const std::string& name : sources.train) train_.push_back(group_of(name));
  for (const std::string& name : sources.eval) eval_.push_back(group_of(name));
  begin(false);
}

void LossBySource::begin(bool evaluation) {
  evaluates_ = evaluation;
  sums_.assign(2 * names_.size(), 0);
}

std::vector<TargetStretch> LossBySource::stretches(const Batch& b) const {
  std::vector<TargetStretch> all;
  const std::vector<std::int32_t>& groups = evaluates_ ? eval_ : train_;
  std::size_t target = 0;
  for (std::size_t s = 0; s < b.dataset_of.size(); ++s) {
    const std::size_t first = target;
    while (target < b.target_rows.size() && b.target_rows[target] < b.starts[s + 1]) ++target;
    if (target == first) continue;
    const auto dataset = static_cast<std::size_t>(b.dataset_of[s]);
    require(dataset < groups.size(), "a dataset that the settings do not have");
    const auto end = static_cast<std::int64_t>(target);
    if (!all.empty() && all.back().group == groups[dataset])
      all.back().end = end;
    else
      all.push_back({end, groups[dataset]});
  }
  return all;
}

Tensor LossBySource::zeros(Ctx& c) const {
  const Tensor sums = c.scratch.take({std::ssize(names_)}, DType::f64);
  const std::vector<double> none(names_.size());
  c.ops.upload(sums, none.data());
  return sums;
}

void LossBySource::add(Ctx& c, Tensor group_sums, std::span<const TargetStretch> stretches) {
  std::vector<double> losses(names_.size());
  c.ops.download(losses.data(), group_sums);
  if (!c.ops.computes()) return;
  for (std::size_t i = 0; i < names_.size(); ++i) sums_[2 * i] += losses[i];
  std::int64_t from = 0;
  for (const TargetStretch& s : stretches) {
    if (s.group >= 0) sums_[2 * static_cast<std::size_t>(s.group) + 1] += static_cast<double>(s.end - from);
    from = s.end;
  }
}

std::vector<std::string> LossBySource::columns() const {
  std::vector<std::string> all;
  for (const std::string& name : names_) all.push_back(evaluates_ ? name + "_loss" : "loss/" + name);
  return all;
}

std::vector<double> LossBySource::take() {
  return std::exchange(sums_, std::vector<double>(2 * names_.size()));
}

Measures LossBySource::measures(const std::vector<double>& sums) const {
  Measures all;
  const std::vector<std::string> names = columns();
  for (std::size_t i = 0; i < names.size() && 2 * i + 1 < sums.size(); ++i)
    if (sums[2 * i + 1] > 0) all.emplace_back(names[i], sums[2 * i] / sums[2 * i + 1]);
  return all;
}

}  // namespace ft
