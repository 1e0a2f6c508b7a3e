// A rank's place in the program, for heartbeats and for the message when a rank is lost.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ft {

enum class Collective : std::uint32_t {
  none = 0,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  transfer,
  barrier,
  all_to_all,
  send_receive
};
const char* name_of(Collective);

struct Whereabouts {                   // sent as raw memory
  std::int64_t step = 0;               // from 1; 0: before the first
  Collective what = Collective::none;  // the last collective that was begun
  std::uint32_t number = 0;            // the collective's number, from 1
  std::int32_t inside = 0;             // 1: it has not ended
  std::int32_t waits_for = -1;         // if inside: the first rank whose message is missing
  std::array<char, 64> about{};        // name of the unit whose data it sends
  std::array<char, 64> group{};        // ranks that take part; empty: all

  void set_about(std::string_view text);
  void set_group(std::string_view text);
};

// "at step 12, in all_gather number 840 of model.layers.3", "at step 12, in all_to_all number 841 of
// model.layers.3 in the sequence group of ranks 0, 1", "before the first step, after barrier number 2".
std::string describe(const Whereabouts&);

}  // namespace ft
