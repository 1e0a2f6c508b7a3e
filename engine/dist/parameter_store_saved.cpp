// What checkpoints and results hold out of what the ranks do, and back.
#include <algorithm>

#include "engine/dist/parameter_store.h"

namespace ft {

// Ranks of several groups hold the same piece: each saves a part of it.
void ParameterStore::each_part(const std::function<void(const Slice&, const Download&)>& visit) {
  const std::int64_t parts = across_ ? across_->size() : 1, part = across_ ? across_->rank() : 0;
  std::vector<float> host;
  const Download download = [&](Tensor t) {
    host.resize(static_cast<std::size_t>(t.numel()));
    ops_.download(host.data(), t);
    return std::span<const float>(host);
  };
  each_slice(Layout::sharded, [&](const Slice& s) {
    const std::int64_t from = s.count * part / parts, count = s.count * (part + 1) / parts - from;
    if (count == 0) return;
    Slice own{s.parameter, s.first + from, count, s.master.elements(from, count), {}, {}};
    for (std::size_t k = 0; k < own.states.size(); ++k)
      if (s.states[k]) own.states[k] = s.states[k].elements(from, count);
    visit(own, download);
  });
}

void ParameterStore::restore(int what, const ReadRange& read) {
  std::vector<float> host;
  each_slice(options_.stage.states, [&](const Slice& s) {
    host.resize(static_cast<std::size_t>(s.count));
    read(*s.parameter, s.first, host);
    ops_.upload(what == kMaster ? s.master : s.states[static_cast<std::size_t>(what)], host.data());
  });
}

}  // namespace ft
