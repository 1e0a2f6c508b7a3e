// Silent data corruption: a memory, a processor or a link changes bits and reports nothing. Ranks hold many
// tensors in common: replicated weights, the gradients and optimizer states of ZeRO stage 0, copies in groups
// of ranks, tensor parallelism and pipelines. An audit hashes every rank's tensors, compares the hashes, and
// names the rank whose bits differ. Tensors with the same name, kind and elements must be equal; no rule
// depends on a parallel axis.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/communicator.h"
#include "engine/zero/host_pieces.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Returns a hash of bytes. One changed word of 8 bytes always changes it.
std::uint64_t audit_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);

class Audit {
 public:
  // stores: the stores of all models of the run, with values. world: all ranks of the run, which construct it
  // together.
  Audit(Ops&, std::vector<ParameterStore*> stores, Communicator& world);

  // Number of tensors that this rank shares with other ranks and compares; 0: it shares none.
  std::int64_t compared() const { return compared_; }
  // Compares everything after a step, in memory of the constructor; every rank calls it. position: text that
  // must be equal on all ranks.
  // gradients: true if the step's gradients were added up over ranks. Throws UserError (corruption), with the
  // same text on all ranks, if a tensor differs. A slow rank may throw (peer_lost), because another rank has
  // left.
  void check(std::int64_t step, const std::string& position, bool gradients);

 private:
  struct Entry {
    std::uint64_t key, hash;  // hashes of its identity (name, kind, elements), and of its bits
    auto operator<=>(const Entry&) const = default;
  };
  enum class Kind : std::uint8_t { value, master, gradient, state };
  // A tensor of this rank: elements [first, first + values.numel()) of a parameter or of its state.
  struct Held {
    std::size_t store;
    const Parameter& parameter;
    Kind kind;
    std::string_view state;
    std::int64_t first;
    Tensor values;
  };
  // slices: also visits masters, gradients and states.
  void each_held(bool slices, bool gradients, const std::function<void(HostPieces&, const Held&)>& visit);
  void gather();  // own_ of all ranks into all_
  bool differ();  // some entries of all_ with one key have several hashes
  bool is_shared(std::uint64_t key) const;
  std::string told_by(int rank, std::uint64_t key);
  std::string verdict(std::int64_t step);
  static std::uint64_t key_of(const Held&);

  Ops& ops_;
  std::vector<ParameterStore*> stores_;
  Communicator& world_;
  HostPieces pieces_;
  std::vector<std::uint64_t> shared_;  // keys that several ranks hold, ascending
  bool slices_ = false;                // some of shared_ belong to masters, gradients or states
  std::vector<Entry> own_;
  // These have their full size after the constructor, which gathers more entries than any check.
  std::vector<std::vector<Entry>> all_;  // by rank
  std::vector<Entry> sorted_;
  std::vector<std::uint64_t> counts_;  // of entries, by rank
  std::vector<std::byte> wire_;
  std::int64_t compared_ = 0, agreed_step_ = 0;
};

}  // namespace ft
