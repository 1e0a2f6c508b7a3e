// Wraps any Ops and records every call: the computation's name, the module or parameter it belongs to
// (`enter`), its start and duration, its floating point operations and the bytes it has to move. Times are
// the device's own, from marks in its queue. Recording never waits: calls follow each other as without it,
// and gaps between them are the device's idle time. Times are read when somebody waits for the device anyway.
// On NullOps the records give a plan's FLOPs; on a real device they are a profile (`trace.json`, for Perfetto
// or chrome://tracing). It can also inspect every result and remember the first call that produced a NaN or
// an Inf. FLOPs and bytes are defined in roles.h.
#pragma once
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/ops/trace_call.h"

namespace ft {

// Sums over all calls of one computation.
struct TraceTotal {
  std::string op;
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// The first result that was not finite.
struct NotFinite {
  std::string op, where, role;  // "rms_norm", "model.layers.3.input_layernorm", "y"
};

struct TraceWhat {
  bool calls = false;   // keep every call for the timeline; otherwise only the totals
  bool finite = false;  // look for NaN and Inf in every result (slow)
};

class TraceOps final : public OpsOf<TraceOps> {
 public:
  explicit TraceOps(Ops& inner, TraceWhat what = {});
  ~TraceOps() override;

  std::vector<TraceTotal> totals();  // longest time first
  double flops() const;              // of all calls
  double seconds();                  // in all calls
  double gaps();                     // seconds between calls; time in which somebody waited is not counted
  const std::vector<TraceCall>& calls();
  const std::optional<NotFinite>& not_finite() const { return not_finite_; }
  void clear();                     // forgets all records
  void stop();                      // passes calls on without recording them
  void start() { noting_ = true; }  // records again, as in the beginning
  // Records from now on the bytes that forward passes keep in this arena, which must outlive the records.
  void watch(const Arena& kept) { arena_ = &kept; }
  // Bytes by label that forward passes took and did not free.
  const std::map<std::string, std::int64_t, std::less<>>& kept() const { return kept_; }

  void write_table(std::ostream& out);  // totals as text, for people
  // Writes calls in Chrome's trace event format. beside: calls of another thread, the one that communicates.
  void write_timeline(std::ostream& out, std::span<const TraceCall> beside = {});

  Device device() const override { return inner_.device(); }
  bool computes() const override { return inner_.computes(); }
  Buffer allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  void copy(Tensor y, Tensor x) override;
  void upload(Tensor y, const void* host) override;
  void download(void* host, Tensor x) override;
  void synchronize() override;
  std::unique_ptr<Stamps> stamps(std::int64_t most) override { return inner_.stamps(most); }
  std::int64_t workspace() const override { return inner_.workspace(); }
  std::int64_t driver_memory() const override { return inner_.driver_memory(); }
  std::int64_t free_memory() const override { return inner_.free_memory(); }
  double peak_flops(DType dtype) override { return inner_.peak_flops(dtype); }
  void enter(std::string_view where) override;
  std::string_view where() const override { return where_; }
  Phases& phases() override { return inner_.phases(); }

 private:
  friend OpsOf<TraceOps>;
  // A call whose times are not known yet: it takes this fraction of the time between two marks.
  struct Pending {
    std::size_t begin, end;  // marks
    double from, to;         // fractions, 0 to 1
    TraceCall call;
  };
  template <class Op>
  void compute(const Op& op);
  // Makes the call and records it; returns true if it was recorded. bytes: read and written by an ideal
  // implementation.
  template <class Call>
  bool note(const char* op, double flops, double bytes, Call call);
  // Records a call for several modules as one call of each, with a part of the time.
  void share_out(const op::Products&);
  void settle();  // waits for the marks, if nobody did, and completes the pending records
  void note_kept();
  void look(const char* op, const char* role, const Tensor& result);

  Ops& inner_;
  TraceWhat what_;
  bool noting_ = true;
  std::string_view where_;
  std::map<std::string_view, TraceTotal> totals_;
  const Arena* arena_ = nullptr;
  std::int64_t mark_ = 0;  // mark of the arena, when it was last inspected
  std::map<std::string, std::int64_t, std::less<>> kept_;
  std::unique_ptr<Stamps> stamps_;
  std::vector<Pending> pending_;
  double gaps_ = 0;
  std::vector<TraceCall> calls_;
  std::optional<NotFinite> not_finite_;
  std::vector<std::byte> host_;  // buffer into which `look` downloads
};

}  // namespace ft
