// A copy of this rank's part of a checkpoint in host memory, from which a thread writes the files while
// training goes on. Its memory is planned and taken before the first step.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/saved_parts.h"
#include "engine/zero/depot.h"

namespace ft {

// Returns the bytes that a snapshot of the stores' parts needs on any rank. The stores may be on NullOps.
// critic: null if there is none.
std::int64_t snapshot_bytes(ParameterStore&, ParameterStore* critic);

class Snapshot final : public PartSink {
 public:
  // memory: an open depot in host memory.
  explicit Snapshot(std::shared_ptr<Depot> memory) : memory_(std::move(memory)) {}

  void clear();  // forgets the copies
  void part(const FilePlace&, const Parameter&, std::int64_t first, HostPieces&,
            const Tensor& values) override;
  void values(const std::string& name, std::int64_t first, const Tensor& host) override;
  // Writes the copies to their places in the files of a folder and syncs these. Touches nothing that training
  // changes. Throws as SafetensorsFiller does.
  void fill_in(const std::string& folder) const;
  std::int64_t size() const { return memory_->size(); }  // bytes

 private:
  struct Copy {
    FilePlace place;
    const Parameter* parameter;  // null: `first` counts in the file's tensor
    std::int64_t first;
    Tensor values;
  };
  Tensor take(const FilePlace&, const Parameter*, std::int64_t first, const Tensor& like);

  std::shared_ptr<Depot> memory_;
  std::vector<Copy> copies_;  // the first count_ are in use; the others are kept for later saves
  std::size_t count_ = 0;
  std::int64_t used_ = 0;  // bytes
};

}  // namespace ft
