#include "engine/cuda/gpu_depots.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "engine/cuda/copies.h"
#include "engine/ranks/work_queue.h"
#include "engine/zero/file_depot.h"

namespace ft {
namespace cuda {
namespace {

// A depot in the host's memory; optimizer steps on its contents run on the host.
class HostDepot final : public Depot {
 public:
  HostDepot(Gpu& gpu, bool pinned) : copies_(gpu), pinned_(pinned) {}

  void open() override { memory_ = host_memory(size(), pinned_); }
  void finish(Ticket t) override { copies_.before_computation(t); }
  std::byte* in_place(std::int64_t at) override { return memory_.get() + at; }
  void land(Ticket t) override { copies_.wait(t); }
  void abandon() override { copies_.wait_all(); }
  Home home() const override { return Home::host; }
  Moved moved() const override { return by_bus(); }

 private:
  Ticket start(Tensor t, std::int64_t at, bool put) override {
    require(t.dense() && 0 <= at && at + t.bytes() <= size(), "outside of the depot");
    copies_.after(copies_.computed());
    std::byte* here = memory_.get() + at;
    return put ? copies_.to_host(here, t.data, t.bytes()) : copies_.to_device(t.data, here, t.bytes());
  }

  Copies copies_;
  bool pinned_;
  Buffer memory_;
};

// A depot in a file: a thread moves chunks between the file and pinned buffers, which are copied to and from
// the GPU.
class GpuFileDepot final : public Depot {
 public:
  GpuFileDepot(Gpu& gpu, const Residence& r) : copies_(gpu), file_(r.folder, r.setting) {}
  ~GpuFileDepot() override { works_.stop(); }

  bool borrows() const override { return true; }
  void open() override {
    file_.reserve(size());
    for (const Borrowed& b : borrowed()) file_.borrow(b.from, b.bytes);
    file_.open();
    memory_ = host_memory(FileDepot::kPinned, true);
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].at = memory_.get() + static_cast<std::int64_t>(i) * FileDepot::kChunk;
  }
  void finish(Ticket t) override {
    works_.wait(t);
    copies_.before_computation(last_copy_);
  }
  void land(Ticket t) override { works_.wait(t); }
  Depot& for_host() override { return file_; }
  void abandon() override {
    works_.stop();
    copies_.wait_all();
    file_.abandon();
  }
  std::int64_t memory() const override { return FileDepot::kMemory + FileDepot::kPinned; }
  Home home() const override { return Home::file; }
  Moved moved() const override { return by_file() + by_bus() + file_.moved(); }
  std::string way() const override { return file_.way(); }

 private:
  struct Chunk {  // a buffer, and the operations that still use it
    std::byte* at = nullptr;
    Copies::Ticket copy = 0;
    Ticket file = 0;
    std::int64_t first = 0, bytes = 0;
  };

  Ticket start(Tensor t, std::int64_t at, bool put) override {
    require(t.dense() && holds(at, t.bytes()), "outside of the depot");
    return works_.give([this, t, at, put, computed = copies_.computed()] {
      copies_.after(computed);
      move(t, at, put);
    });
  }
  // Moves a tensor by chunks; a chunk begins while earlier ones are under way.
  void move(const Tensor& t, std::int64_t at, bool put) {
    const std::int64_t chunks = ceil_div(t.bytes(), FileDepot::kChunk), n = buffers_.size();
    for (std::int64_t i = 0; i < chunks + n - 1; ++i) {
      if (i < chunks) begin(buffers_[static_cast<std::size_t>(i % n)], t, at, i * FileDepot::kChunk, put);
      const std::int64_t over = i - n + 1;
      if (over >= 0 && over < chunks) end(buffers_[static_cast<std::size_t>(over % n)], t, at, put);
    }
  }
  void begin(Chunk& c, const Tensor& t, std::int64_t at, std::int64_t first, bool put) {
    file_.finish(c.file);
    copies_.wait(c.copy);
    c.first = first;
    c.bytes = std::min(FileDepot::kChunk, t.bytes() - first);
    if (put)
      c.copy = copies_.to_host(c.at, t.data + first, c.bytes);
    else
      c.file = file_.move({c.at, DType::u8, {c.bytes}}, at + first, false);
  }
  void end(Chunk& c, const Tensor& t, std::int64_t at, bool put) {
    if (put) {
      copies_.wait(c.copy);
      c.file = file_.move({c.at, DType::u8, {c.bytes}}, at + c.first, true);
      last_copy_ = std::max<Copies::Ticket>(last_copy_, c.copy);
    } else {
      file_.finish(c.file);
      last_copy_ = c.copy = copies_.to_device(t.data + c.first, c.at, c.bytes);
    }
  }

  Copies copies_;
  FileDepot file_;
  Buffer memory_;
  std::array<Chunk, FileDepot::kPinned / FileDepot::kChunk> buffers_{};
  std::atomic<Copies::Ticket> last_copy_ = 0;
  WorkQueue works_;  // last: it uses the other members
};

}  // namespace
}  // namespace cuda

std::shared_ptr<Depot> make_gpu_depot(Ops& ops, const Residence& r) {
  if (r.home == Home::device) return nullptr;
  cuda::Gpu& gpu = cuda::gpu_of(ops);
  if (r.home == Home::host) return std::make_shared<cuda::HostDepot>(gpu, r.pinned);
  return std::make_shared<cuda::GpuFileDepot>(gpu, r);
}

}  // namespace ft
