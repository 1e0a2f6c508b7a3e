#include "engine/train/audit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr std::uint64_t kPrime = 0x9e3779b185ebca87, kOther = 0xc2b2ae3d27d4eb4f;  // xxHash64's
constexpr std::uint64_t kPosition = 1;                                             // key of the position

// A round of xxHash64. The primes are odd, so that another h, or another word, always gives another number.
std::uint64_t mix(std::uint64_t h, std::uint64_t word) { return std::rotl(h + word * kOther, 31) * kPrime; }

std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0) {
  return audit_hash(std::as_bytes(std::span(text)), seed);
}

std::string text_of(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += str(i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  return text;
}

// The ranks that hold one tensor, by the hash of their bits.
using Votes = std::map<std::uint64_t, std::vector<int>>;

// Returns the hash that more than half of the ranks have; null: there is none.
const Votes::value_type* majority(const Votes& votes) {
  std::size_t all = 0;
  for (const auto& [hash, ranks] : votes) all += ranks.size();
  const auto most = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second.size(); });
  return 2 * most->second.size() > all ? &*most : nullptr;
}

std::string who_differs(const Votes& votes) {
  const auto* most = majority(votes);
  std::vector<int> others;
  for (const auto& [hash, ranks] : votes)
    if (!most || hash != most->first) others.insert(others.end(), ranks.begin(), ranks.end());
  std::ranges::sort(others);
  if (!most) return text_of(others) + " differ from each other";
  return str(text_of(others), others.size() == 1 ? " differs" : " differ", " from ", text_of(most->second));
}

}  // namespace

// Hashes in eight chains, which the processor computes in parallel.
std::uint64_t audit_hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  constexpr std::size_t kLanes = 8, kWord = sizeof(std::uint64_t), kRow = kLanes * kWord;
  std::array<std::uint64_t, kLanes> lanes;
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = seed + l * kPrime;
  const auto add = [&](const std::byte* row) {
    std::array<std::uint64_t, kLanes> words;
    std::memcpy(words.data(), row, kRow);
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = mix(lanes[l], words[l]);
  };
  std::size_t at = 0;
  for (; at + kRow <= bytes.size(); at += kRow) add(bytes.data() + at);
  std::array<std::byte, kRow> rest{};
  if (at < bytes.size()) std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
  add(rest.data());
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  return hash;
}

Audit::Audit(Ops& ops, std::vector<ParameterStore*> stores, Communicator& world)
    : ops_(ops), stores_(std::move(stores)), world_(world), pieces_(ops) {
  own_.push_back({kPosition, 0});
  each_held(true, true, [&](HostPieces& pieces, const Held& h) {
    own_.push_back({key_of(h), 0});
    pieces.reserve(h.values);
  });
  gather();
  differ();  // gives sorted_ its size
  std::map<std::uint64_t, int> ranks;
  for (const auto& entries : all_)
    for (const Entry& e : entries) ++ranks[e.key];
  for (const auto& [key, count] : ranks)
    if (count > 1 && key != kPosition) shared_.push_back(key);
  each_held(true, true, [&](HostPieces&, const Held& h) {
    if (!is_shared(key_of(h))) return;
    ++compared_;
    slices_ = slices_ || h.kind != Kind::value;
  });
}

bool Audit::is_shared(std::uint64_t key) const { return std::ranges::binary_search(shared_, key); }

std::uint64_t Audit::key_of(const Held& h) {
  std::uint64_t key = hash_of(h.parameter.name, h.store);
  key = hash_of(h.state, mix(key, static_cast<std::uint64_t>(h.kind)));
  const auto add = [&](std::int64_t n) { key = mix(key, static_cast<std::uint64_t>(n)); };
  add(h.first);
  add(h.values.numel());
  if (const auto& portion = h.parameter.portion) {
    add(portion->all);
    for (const Portion::Run& r : portion->runs) add(r.begin), add(r.count);
  }
  return key;
}

// Skips offloaded values: they are sharded, so no other rank has them.
void Audit::each_held(bool slices, bool gradients,
                      const std::function<void(HostPieces&, const Held&)>& visit) {
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    ParameterStore& store = *stores_[s];
    store.layout().each_group([&](const zero::Group& g) {
      const Tensor value = store.residency().value(g);
      if (!value) return;
      const zero::Range mine = store.layout().held(g, g.stage.params);
      for (std::size_t i = 0; i < g.parameters.size(); ++i)
        if (const zero::Range part = g.part(i, mine); part.count > 0)
          visit(pieces_, {s, *g.parameters[i], Kind::value, "", part.first - g.offsets[i],
                          value.elements(part.first - mine.first, part.count)});
    });
    if (!slices) continue;
    Ops& updating = store.stepping().ops(ops_);
    HostPieces on_host(updating);
    HostPieces& pieces = &updating == &ops_ ? pieces_ : on_host;
    store.stepping().each_slice(
        store.layout().options().stage.states, {.grads = gradients}, [&](const Slice& slice) {
          const Parameter& p = *slice.parameter;
          const auto states = store.layout().states(p);
          if (p.dtype != DType::f32) visit(pieces, {s, p, Kind::master, "", slice.first, slice.master});
          if (gradients) visit(pieces, {s, p, Kind::gradient, "", slice.first, slice.grad});
          for (std::size_t k = 0; k < states.size(); ++k)
            if (!states[k].unsharded())
              visit(pieces,
                    {s, p, Kind::state, states[k].name, slice.first / states[k].block, slice.states[k]});
        });
    store.stepping().each_unsharded_state(
        [&](const Parameter& p, const StateSpec& state, const Tensor& here, std::int64_t first) {
          if (!state.differs()) visit(pieces_, {s, p, Kind::state, state.name, first, here});
        });
  }
}

void Audit::check(std::int64_t step, const std::string& position, bool gradients) {
  own_.clear();
  own_.push_back({kPosition, hash_of(position)});
  each_held(slices_, gradients, [&](HostPieces& pieces, const Held& h) {
    const std::uint64_t key = key_of(h);
    if (!is_shared(key)) return;
    std::uint64_t hash = 0;
    pieces.out_of(h.values, [&](const Tensor& piece, std::int64_t) {
      hash = audit_hash({piece.data, static_cast<std::size_t>(piece.bytes())}, hash);
    });
    own_.push_back({key, hash});
  });
  gather();
  if (const std::string text = verdict(step); !text.empty()) throw UserError(Exit::corruption, text);
  agreed_step_ = step;
}

void Audit::gather() {
  const auto ranks = static_cast<std::size_t>(world_.size()), rank = static_cast<std::size_t>(world_.rank());
  counts_.resize(ranks);
  counts_[rank] = own_.size();
  world_.all_gather_host(std::as_writable_bytes(std::span(counts_)));
  const std::size_t each = *std::ranges::max_element(counts_) * sizeof(Entry);
  wire_.resize(ranks * each);
  std::memcpy(wire_.data() + rank * each, own_.data(), own_.size() * sizeof(Entry));
  world_.all_gather_host(wire_);
  all_.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    all_[r].resize(counts_[r]);
    std::memcpy(all_[r].data(), wire_.data() + r * each, counts_[r] * sizeof(Entry));
  }
}

bool Audit::differ() {
  sorted_.clear();
  for (const auto& entries : all_) sorted_.insert(sorted_.end(), entries.begin(), entries.end());
  std::ranges::sort(sorted_);
  const auto two = [](const Entry& a, const Entry& b) { return a.key == b.key && a.hash != b.hash; };
  return std::ranges::adjacent_find(sorted_, two) != sorted_.end();
}

// Returns a message about the first tensor that differs, by the lowest rank that holds it; empty: none
// differs. All ranks have the same hashes, so they return the same.
std::string Audit::verdict(std::int64_t step) {
  if (!differ()) return "";
  std::map<std::uint64_t, Votes> all;
  for (std::size_t r = 0; r < all_.size(); ++r)
    for (const Entry& e : all_[r]) all[e.key][e.hash].push_back(static_cast<int>(r));
  const auto different = std::ranges::count_if(all, [](const auto& v) { return v.second.size() > 1; });
  for (std::size_t r = 0; r < all_.size(); ++r)
    for (const Entry& e : all_[r]) {
      const Votes& votes = all[e.key];
      if (votes.size() == 1) continue;
      const std::string name = told_by(static_cast<int>(r), e.key);
      return str("step ", step, ": ", who_differs(votes), " in ", name,
                 different > 1 ? str(" (and in ", different - 1, " more)") : "",
                 ", which must have the same bits: silent data corruption\n  a memory, a processor or a link "
                 "changed bits, or the ranks' processors differ; test the machine of that rank, and resume "
                 "from a checkpoint ",
                 agreed_step_ > 0 ? str("of step ", agreed_step_, ", where all were equal, or before")
                                  : "of before");
    }
  return "";
}

// Returns, on all ranks, the name of a key's tensor or position, which `rank` knows.
std::string Audit::told_by(int rank, std::uint64_t key) {
  std::string text = key == kPosition && world_.rank() == rank ? "the position in the run" : "";
  if (world_.rank() == rank && key != kPosition)
    each_held(true, true, [&](HostPieces&, const Held& h) {
      if (key_of(h) != key) return;
      const char* kind = h.kind == Kind::value      ? "the weights"
                         : h.kind == Kind::master   ? "the f32 weights"
                         : h.kind == Kind::gradient ? "the gradient"
                                                    : "";
      text = str(kind, h.state, " of ", h.parameter.name);
    });
  std::uint64_t size = text.size();
  world_.broadcast(std::as_writable_bytes(std::span(&size, 1)), rank);
  text.resize(size);
  world_.broadcast(std::as_writable_bytes(std::span(text)), rank);
  world_.barrier();  // every rank knows it before the first one leaves
  return text;
}

}  // namespace ft
