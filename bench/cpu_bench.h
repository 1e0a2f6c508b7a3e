// Helpers shared by the benchmarks of CPU kernels.
#pragma once
#include <time.h>

#include <functional>
#include <string_view>
#include <vector>

#include "engine/core/random.h"
#include "engine/cpu/target.h"

namespace ft::cpu {

// Returns the target with this name if this CPU supports it, else its best target.
inline Target target_named(std::string_view name) {
  for (const Target t : usable_targets())
    if (name == name_of(t)) return t;
  return best_target();
}

// Returns the seconds that f takes. One thread uses its own CPU clock, which other work on the machine
// disturbs less.
inline double time_of(const Team& team, const std::function<void()>& f) {
  const clockid_t clock = team.size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const auto now = [clock] {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

// Returns FLOP/s of all threads' register tiles at this moment: on a shared machine they change constantly.
inline double tile_rate(const Kernels& kernels, Team& team, DType t) {
  std::vector<double> flops(static_cast<std::size_t>(team.size()));
  const double took = time_of(team, [&] {
    share_out(team, team.size(), false, [&](std::int64_t i, int) {
      flops[static_cast<std::size_t>(i)] = kernels.products.tile_out_of_cache(t, 10000);
    });
  });
  double total = 0;
  for (const double f : flops) total += f;
  return total / took;
}

// Writes n random numbers of f32 or bf16 in -1/2 .. 1/2.
inline void fill_random(std::byte* to, std::int64_t n, DType dtype, std::uint64_t seed) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = to_uniform(Random{seed}.at(static_cast<std::uint64_t>(i))[0]) - 0.5f;
    if (dtype == DType::f32)
      reinterpret_cast<float*>(to)[i] = v;
    else
      from_float(reinterpret_cast<bf16*>(to)[i], v);
  }
}

}  // namespace ft::cpu
