#include "lora/starts/eva.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>

#include "engine/files/hash.h"
#include "lora/matching.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

void broadcast(Communicator& comm, std::vector<double>& values, int from) {
  if (comm.size() > 1) comm.broadcast(std::as_writable_bytes(std::span(values)), from);
}

}  // namespace

Eva::Eva(std::vector<Layer> layers, const EvaConfig& config, Communicator& comm)
    : layers_(std::move(layers)), config_(config), comm_(comm), seen_(layers_.size()) {
  for (const Layer& l : layers_) {
    most_.push_back(std::llrint(static_cast<double>(l.rank) * config_.rho));  // ties to even, as in Python
    ranks_.push_back(most_.back());
    if (most_.back() > l.in)
      throw UserError(Exit::config, str("lora.eva_config.rho: ", most_.back(), " components for ", l.name,
                                        ", which has ", l.in, " inputs; lower it, or lora.r"));
  }
}

void Eva::compare(std::size_t layer, MatrixView rows) {
  const auto bytes = static_cast<std::size_t>(rows.rows * rows.cols) * sizeof(float);
  seen_[layer] = sha256(std::string_view(reinterpret_cast<const char*>(rows.at), bytes));
}

void Eva::begin() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto same = std::find(seen_.begin(), seen_.end(), seen_[i]);
    shared_.push_back(static_cast<std::size_t>(same - seen_.begin()));
    most_[shared_[i]] = std::max(most_[shared_[i]], most_[i]);
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    most_[i] = ranks_[i] = most_[shared_[i]];
    state_of_.push_back(shared_[i] == i ? states_.size() : state_of_[shared_[i]]);
    if (shared_[i] == i)
      states_.push_back({IncrementalSvd(most_[i]), static_cast<int>(states_.size()) % comm_.size(), {}, {}});
  }
}

bool Eva::still(std::size_t layer) const {
  const std::vector<double>& now = states_[state_of_[layer]].similarity;
  const auto rank = static_cast<std::size_t>(ranks_[layer]);
  return rank <= now.size() && std::all_of(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(rank),
                                           [&](double s) { return s >= config_.tau; });
}

bool Eva::wants(std::size_t layer) const {
  return shared_[layer] == layer && states_[state_of_[layer]].owner == comm_.rank() && !still(layer);
}

void Eva::add(std::size_t layer, MatrixView rows) {
  State& s = states_[state_of_[layer]];
  if (rows.rows >= s.svd.count()) s.svd.add(rows);
}

// Broadcasts the owners' results to all ranks.
void Eva::end_batch() {
  for (State& s : states_) {
    const auto n = static_cast<std::size_t>(s.svd.count());
    std::vector<double> numbers(2 * n + 1);
    if (s.svd.begun() && s.owner == comm_.rank()) {
      numbers[0] = 1;
      std::ranges::copy(s.svd.explained(), numbers.begin() + 1);
      std::ranges::copy(s.svd.similarity(), numbers.begin() + 1 + static_cast<std::ptrdiff_t>(n));
    }
    broadcast(comm_, numbers, s.owner);
    if (numbers[0] == 0) continue;
    const auto middle = numbers.begin() + 1 + static_cast<std::ptrdiff_t>(n);
    s.explained.assign(numbers.begin() + 1, middle);
    s.similarity.assign(middle, numbers.end());
  }
  if (decomposes()) distribute();
}

// Distributes the ranks: chooses as many components as there are ranks to give, those that explain most. Of
// equal components the first Linear's are chosen. Among Linears with the same input, the first gets the
// highest rank.
void Eva::distribute() {
  struct Candidate {
    double explains;
    std::size_t layer;
  };
  std::vector<Candidate> all;
  const auto offer = [&](std::size_t i) {
    for (const double e : states_[state_of_[i]].explained) all.push_back({e, i});
  };
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (shared_[i] == i) offer(i);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (shared_[i] != i) offer(i);
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.explains > b.explains; });
  const auto budget = std::accumulate(layers_.begin(), layers_.end(), std::int64_t{0},
                                      [](std::int64_t sum, const Layer& l) { return sum + l.rank; });
  std::ranges::fill(ranks_, 0);
  for (std::size_t k = 0; k < std::min(all.size(), static_cast<std::size_t>(budget)); ++k)
    ++ranks_[all[k].layer];
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (ranks_[shared_[i]] < ranks_[i]) std::swap(ranks_[shared_[i]], ranks_[i]);
}

bool Eva::decomposes() const {
  return std::ranges::all_of(states_, [](const State& s) { return !s.explained.empty(); });
}

std::int64_t Eva::settled() const {
  std::int64_t n = 0;
  for (const std::size_t first : shared_) n += still(first);
  return n;
}

bool Eva::done() const { return settled() == std::ssize(layers_); }

std::int64_t Eva::most_components() const { return *std::ranges::max_element(most_); }

std::vector<float> Eva::start_of(std::size_t layer) const {
  const State& s = states_[state_of_[layer]];
  const auto rank = ranks_[layer], in = layers_[layer].in;
  std::vector<double> a(static_cast<std::size_t>(rank * in));
  for (std::int64_t k = 0; s.owner == comm_.rank() && k < rank; ++k) {
    const double by = config_.whiten ? 1 / std::sqrt(s.svd.values()[static_cast<std::size_t>(k)]) : 1;
    for (std::int64_t c = 0; c < in; ++c)
      a[static_cast<std::size_t>(k * in + c)] = by * s.svd.components()[k][c];
  }
  broadcast(comm_, a, s.owner);
  return {a.begin(), a.end()};
}

LoraConfig redistributed(const LoraConfig& config, const Attached& attached,
                         const std::vector<std::int64_t>& ranks, const Origin& origin) {
  LoraConfig c = config;
  c.rank_pattern.clear();
  c.alpha_pattern.clear();
  std::vector<std::string> left;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == 0) continue;
    const std::string name = in_peft(attached.linears[i]);
    left.push_back(name);
    const std::int64_t before = as_lora(*attached.adapters[i]).rank();
    double alpha = pattern_value(config.alpha_pattern, name, origin.prefix + "alpha_pattern", origin.exit)
                       .value_or(c.lora_alpha);
    if (ranks[i] != before && c.eva_config.adjust_scaling_factors)
      alpha *= static_cast<double>(ranks[i]) / static_cast<double>(before);
    if (ranks[i] != c.r) c.rank_pattern.emplace_back(name, ranks[i]);
    if (alpha != c.lora_alpha) c.alpha_pattern.emplace_back(name, alpha);
  }
  if (left.size() < ranks.size()) c.target_modules = std::move(left);
  return c;
}

}  // namespace ft::lora
