#include "engine/generate/ranks.h"

#include <algorithm>

#include "engine/ranks/together.h"

namespace ft {

std::vector<Prompt> own_prompts(std::span<const Prompt> all, const Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<Prompt> own;
  for (auto i = static_cast<std::size_t>(comm.rank()); i < all.size(); i += ranks) own.push_back(all[i]);
  return own;
}

void share_answers(Communicator& comm, std::vector<std::vector<std::int32_t>>& answers) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (ranks == 1) return;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<std::uint64_t> sizes;  // of rank r's answers
    std::vector<std::int32_t> ids;     // one answer after another
    for (std::size_t i = r; i < answers.size(); i += ranks) {
      sizes.push_back(answers[i].size());
      ids.insert(ids.end(), answers[i].begin(), answers[i].end());
    }
    if (sizes.empty()) return;  // more ranks than answers
    const auto root = static_cast<int>(r);
    comm.broadcast(std::as_writable_bytes(std::span(sizes)), root);
    std::size_t all = 0;
    for (const std::uint64_t size : sizes) all += size;
    ids.resize(all);
    comm.broadcast(std::as_writable_bytes(std::span(ids)), root);
    auto at = ids.begin();
    for (std::size_t i = r; i < answers.size(); i += ranks) {
      const auto end = at + static_cast<std::ptrdiff_t>(sizes[i / ranks]);
      answers[i].assign(at, end);
      at = end;
    }
  }
}

Generator::AnyRank asked_of_all(const ParameterStore& store) {
  if (!store.layout().gathers()) return {};
  return [&comm = store.communicator()](bool here) {
    const std::vector<std::uint8_t> yes = asked(comm, here);
    return std::find(yes.begin(), yes.end(), 1) != yes.end();
  };
}

}  // namespace ft
