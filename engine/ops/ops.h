// A device: its memory, its queue, and every computation ft can do. CPU, CUDA, Null (which only measures
// memory) and Trace (which wraps another and takes notes) implement it; nothing else in the program touches
// an element.
#pragma once
#include <memory>
#include <string_view>

#include "engine/core/arena.h"
#include "engine/ops/all.h"
#include "engine/ops/device.h"
#include "engine/ops/phases.h"
#include "engine/ops/stamps.h"

namespace ft {

class Ops {
 public:
  virtual ~Ops() = default;

  // Computes an operation: ops.run(op::Fill{y, 0}). Its shapes and types are checked first, here for every
  // backend, so that what runs on NullOps also runs on the CPU and on CUDA; a violation is ours, not the
  // user's: InternalError. What lies in memory (ids, positions, targets) is checked where it can be read.
  template <Operation Op>
  void run(const Op& op) {
    op.check();
    static_cast<const OpFunction<Op, Ops>&>(table_).compute(op, *this);
  }

  // ---- the queue
  virtual Device device() const = 0;
  // Memory of this device, not cleared. Called before step 1 only. UserError(Exit::memory) when there is
  // none.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  // Moves bytes as they are. These are the queue's, not operations: the other side may be the host's memory.
  virtual void copy(Tensor y, Tensor x) = 0;            // same shape, dtype and device
  virtual void upload(Tensor y, const void* host) = 0;  // y dense
  virtual void download(void* host, Tensor x) = 0;      // x dense; returns when it has arrived
  virtual void synchronize() = 0;                       // all work so far is done
  // For times of work in the queue; `most` marks between two looks. Called before step 1.
  virtual std::unique_ptr<Stamps> stamps(std::int64_t most);
  // Bytes that it holds for its own use.
  virtual std::int64_t workspace() const { return 0; }
  // Makes the workspace large enough for weights in 4 bits to be made dense in so many bytes. Called before
  // step 1 only.
  virtual void reserve_dense(std::int64_t /*bytes*/) {}
  // Bytes that the device's driver and libraries hold for this process beside that; 0: none, or unknown.
  virtual std::int64_t driver_memory() const { return 0; }
  // Bytes of the device that it could hold beside what it holds now, its own use included; 0: unknown.
  virtual std::int64_t free_memory() const { return 0; }
  // FLOP/s that products of this type reach at best, measured in some tens of milliseconds; 0: unknown.
  virtual double peak_flops(DType) { return 0; }
  // Tells tracers and profilers what the following calls belong to: a module or parameter by its Hugging Face
  // name, which must outlive these calls.
  virtual void enter(std::string_view /*where*/) {}
  virtual std::string_view where() const { return {}; }  // what was entered last; empty: nobody asks
  // The part of a step that the following calls belong to.
  virtual Phases& phases() { return phases_; }

 protected:
  using Table = OpTable<AllOps, Ops>;
  explicit Ops(const Table& table) : table_(table) {}

  static void check_copy(const Tensor& y, const Tensor& x);
  static void check_transfer(const Tensor& device);  // upload and download

 private:
  const Table& table_;  // how the backend computes each operation
  Phases phases_;
};

// What a backend derives from: class X final : public OpsOf<X>, with a function compute(op) for every
// operation of AllOps. The compiler says which one is missing.
template <class Backend>
class OpsOf : public Ops {
 protected:
  OpsOf() : Ops(kTable) {}

 private:
  template <class... Op>
  static constexpr Table table(OpList<Op...>) {
    return {{[](const Op& op, Ops& ops) { static_cast<Backend&>(ops).compute(op); }}...};
  }
  static constexpr Table kTable = table(AllOps{});
};

// One product: y = alpha op(a) op(b) + c.
inline void product(Ops& ops, Tensor y, Term term, float alpha = 1, Tensor c = {}) {
  ops.run(op::Products{.y = y, .terms = {&term, 1}, .alpha = alpha, .c = c});
}

// Bytes that arenas of a device's memory put between rows (Arena::take_padded).
std::int64_t row_padding(Device);
Arena make_arena(Ops&, std::int64_t bytes);

// UserError(Exit::hardware) when there is no such device, or it lacks what the options ask for.
std::unique_ptr<Ops> make_ops(Device, const DeviceOptions& = {});

}  // namespace ft
