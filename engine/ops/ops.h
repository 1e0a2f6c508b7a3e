// A device: its memory, its queue, and every computation of ft. CPU, CUDA, Null (which only measures memory)
// and Trace (which wraps another and records calls) implement it. Nothing else in the program touches an
// element.
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

  // Computes an operation: ops.run(op::Fill{y, 0}). Checks its shapes and types first, here for every
  // backend, so that operations that run on NullOps also run on the CPU and on CUDA. Throws InternalError on
  // a violation, because it is a bug of ft, not of the user. Contents of tensors (ids, positions, targets)
  // are checked where they can be read.
  template <Operation Op>
  void run(const Op& op) {
    op.check();
    static_cast<const OpFunction<Op, Ops>&>(table_).compute(op, *this);
  }

  // ---- the queue
  virtual Device device() const = 0;
  // Returns false if operations are only counted: the host's memory is neither read nor written, so callers
  // need not fill it.
  virtual bool computes() const { return true; }
  // Allocates memory of this device, not cleared. Called before step 1 only. Throws UserError (memory) if
  // there is not enough.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  // Moves bytes unchanged. These are calls on the queue, not operations, because the other side may be the
  // host's memory.
  virtual void copy(Tensor y, Tensor x) = 0;            // same shape, dtype and device
  virtual void upload(Tensor y, const void* host) = 0;  // y dense
  virtual void download(void* host, Tensor x) = 0;      // x dense; returns when it has arrived
  virtual void synchronize() = 0;                       // returns when all work so far is done
  // Marks for measuring the time of work in the queue; at most `most` marks between two reads. Called before
  // step 1.
  virtual std::unique_ptr<Stamps> stamps(std::int64_t most);
  // Bytes that it holds for its own use.
  virtual std::int64_t workspace() const { return 0; }
  // Makes the workspace large enough to decode weights, or to quantize rows (fp8_room.h), in this many bytes.
  // Called before step 1 only.
  virtual void reserve_dense(std::int64_t /*bytes*/) {}
  // Bytes that the device's driver and libraries hold for this process in addition; 0: none, or unknown.
  virtual std::int64_t driver_memory() const { return 0; }
  // Bytes of the device that it could still allocate; 0: unknown.
  virtual std::int64_t free_memory() const { return 0; }
  // FLOP/s that products of this type reach at best, measured in some tens of milliseconds; 0: unknown.
  virtual double peak_flops(DType) { return 0; }
  // Tells tracers and profilers the label of the following calls: a module or parameter by its Hugging Face
  // name, which must outlive these calls.
  virtual void enter(std::string_view /*where*/) {}
  virtual std::string_view where() const { return {}; }  // the last label; empty: nobody traces
  // The part of a step that the following calls belong to.
  virtual Phases& phases() { return phases_; }

 protected:
  using Table = OpTable<AllOps, Ops>;
  explicit Ops(const Table& table) : table_(table) {}

  static void check_copy(const Tensor& y, const Tensor& x);
  static void check_transfer(const Tensor& device);  // for upload and download

 private:
  const Table& table_;  // the backend's function for each operation
  Phases phases_;
};

// Base class of backends: class X final : public OpsOf<X>, with a function compute(op) for every operation of
// AllOps. The compiler reports a missing one.
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

// Computes one product: y = alpha op(a) op(b) + c.
inline void product(Ops& ops, Tensor y, Term term, float alpha = 1, Tensor c = {}) {
  ops.run(op::Products{.y = y, .terms = {&term, 1}, .alpha = alpha, .c = c});
}

// Bytes that arenas in a device's memory leave between rows (Arena::take_padded).
std::int64_t row_padding(Device);
Arena make_arena(Ops&, std::int64_t bytes);

// Throws UserError (hardware) if there is no such device, or it does not support the options.
std::unique_ptr<Ops> make_ops(Device, const DeviceOptions& = {});

}  // namespace ft
