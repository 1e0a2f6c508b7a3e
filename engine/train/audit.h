// Silent data corruption: a memory, a processor or a link changes bits and reports nothing. Ranks hold many
// tensors in common: replicated weights, the gradients and optimizer states of ZeRO stage 0, copies in groups
// of ranks, tensor parallelism and pipelines. An audit hashes each rank's, compares them, and names the rank
// whose bits are not the others'. Tensors with the same name, kind and elements have to be equal; no rule
// depends on a parallel axis.
#pragma once
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
  // stores: with values, of all models that are trained. world: all ranks of the run, which construct it
  // together.
  Audit(Ops&, std::vector<ParameterStore*> stores, Communicator& world);

  // Number of tensors that this rank compares with others; 0: this rank alone holds what it has.
  std::int64_t compared() const { return compared_; }
  // Compares everything after a step; every rank calls it. position: text that has to be equal on all ranks.
  // gradients: those of the step are added up over ranks. Throws UserError (corruption), with the same
  // text on all ranks, if a tensor differs; on a slow rank perhaps (peer_lost), because another one left.
  void check(std::int64_t step, const std::string& position, bool gradients);

 private:
  struct Entry {
    std::uint64_t key, hash;  // of what it is, and of its bits
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
  // slices: masters, gradients and states too.
  void each_held(bool slices, bool gradients, const std::function<void(HostPieces&, const Held&)>& visit);
  void gather();  // own_ of all ranks into all_
  bool is_shared(std::uint64_t key) const;
  std::string told_by(int rank, std::uint64_t key);
  std::string verdict(std::int64_t step);
  static std::uint64_t key_of(const Held&);

  Ops& ops_;
  std::vector<ParameterStore*> stores_;
  Communicator& world_;
  HostPieces pieces_;
  std::vector<std::uint64_t> shared_;  // keys that several ranks hold, ascending
  bool slices_ = false;                // some of them belong to masters, gradients or states
  std::vector<Entry> own_;
  std::vector<std::vector<Entry>> all_;  // by rank
  std::vector<std::byte> wire_;
  std::int64_t compared_ = 0, agreed_step_ = 0;
};

}  // namespace ft
