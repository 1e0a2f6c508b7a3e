#include "engine/ranks/mesh_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/ops/ops.h"

namespace ft {
namespace {

Tensor part(const Tensor& t, std::int64_t first, std::int64_t count) {
  return {t.data + first * size_of(t.dtype), t.dtype, {count}};
}

std::span<std::byte> bytes(const Tensor& t) { return {t.data, static_cast<std::size_t>(t.bytes())}; }

double wide(double v) { return v; }
template <class T>
float wide(T v) {
  return to_float(v);
}
void narrow(double& y, double v) { y = v; }
template <class T>
void narrow(T& y, float v) {
  from_float(y, v);
}

// y = x[0] + x[1] + ... in this order, added in the type that wide() returns.
template <class T>
void add_in_order(T* y, std::span<const std::byte* const> x, std::int64_t n) {
  constexpr std::int64_t kBlock = 512;  // elements; fits into the L1 cache
  decltype(wide(T{})) sum[kBlock];
  for (std::int64_t from = 0; from < n; from += kBlock) {
    const std::int64_t count = std::min(kBlock, n - from);
    for (std::size_t r = 0; r < x.size(); ++r) {
      const T* v = reinterpret_cast<const T*>(x[r]) + from;
      if (r == 0)
        for (std::int64_t i = 0; i < count; ++i) sum[i] = wide(v[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) sum[i] += wide(v[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) narrow(y[from + i], sum[i]);
  }
}

}  // namespace

MeshCommunicator::Wires::Wires(Ops& ops, Mesh mesh, double seconds, std::int64_t bucket, Wire w)
    : exchange(std::move(mesh), seconds),
      wire(w),
      piece(piece_of(exchange.size(), bucket)),
      memory(memory_of(exchange.size(), bucket, exchange.encryption())),
      arrived(ops.allocate(memory_of(exchange.size(), bucket))),
      parcels(static_cast<std::size_t>(exchange.size())) {
  require(ops.device().kind == Device::Kind::cpu, "this communicator is for CPUs");
}

MeshCommunicator::MeshCommunicator(Ops& ops, Mesh mesh, double seconds, std::int64_t bucket, Wire wire)
    : wires_(std::make_shared<Wires>(ops, std::move(mesh), seconds, bucket, wire)),
      members_(wires_->parcels.size()),
      rank_(wires_->exchange.rank()),
      ranges_(members_.size()) {
  std::iota(members_.begin(), members_.end(), 0);
}

MeshCommunicator::MeshCommunicator(std::shared_ptr<Wires> wires, RankSubset group)
    : wires_(std::move(wires)),
      members_(std::move(group.members)),
      exact_(group.exact),
      series_{.group = std::move(group.name)},
      ranges_(members_.size()) {
  const auto own = std::find(members_.begin(), members_.end(), wires_->exchange.rank());
  require(own != members_.end(), "a rank is not in its group");
  rank_ = static_cast<int>(own - members_.begin());
}

std::unique_ptr<Communicator> MeshCommunicator::split(RankSubset group) {
  for (int& m : group.members) m = members_.at(static_cast<std::size_t>(m));
  group.exact |= exact_;
  if (group.name.empty()) group.name = series_.group;
  return std::unique_ptr<Communicator>(new MeshCommunicator(wires_, std::move(group)));
}

std::string MeshCommunicator::via() const {
  switch (encryption()) {
    case Encryption::none:
      return "TCP";
    case Encryption::auth:
      return "TCP, authenticated";
    case Encryption::tls:
      return "TCP with TLS 1.3";
  }
  return "";
}

void MeshCommunicator::clear_parcels() {
  for (Parcel& p : wires_->parcels) p = {.sends = false, .hears = false, .out = {}, .in = {}};
}

void MeshCommunicator::all_gather(Tensor all, Tensor mine) {
  require(all.numel() == mine.numel() * size() && all.dtype == mine.dtype, "all_gather: sizes");
  const std::int64_t each = mine.numel();
  const Tensor own = part(all, each * rank(), each);
  if (own.data != mine.data && each > 0)
    std::memcpy(own.data, mine.data, static_cast<std::size_t>(mine.bytes()));
  clear_parcels();
  for (int r = 0; r < size(); ++r) parcel(r) = {.out = bytes(own), .in = bytes(part(all, each * r, each))};
  exchange(Collective::all_gather);
}

void MeshCommunicator::sum(Collective what, Tensor mine, Tensor all, const std::vector<Range>& ranges) {
  if (narrows(all.dtype)) return sum_narrow(what, mine, all, ranges);
  const std::int64_t most = wires_->piece / size_of(all.dtype);
  for (std::int64_t from = 0; from == 0 || from < longest(ranges); from += most) {
    const auto piece = [&](int r) { return ranges[static_cast<std::size_t>(r)].piece(from, most); };
    const Range own = piece(rank());
    std::byte* to = wires_->arrived.get();
    clear_parcels();
    for (int r = 0; r < size(); ++r) {
      const Range theirs = piece(r);
      const Tensor in(to, all.dtype, {own.count});
      parcel(r) = {.out = bytes(part(all, theirs.first, theirs.count)), .in = bytes(in)};
      if (r != rank()) to += wires_->piece;
    }
    exchange(what);
    add_up(part(mine, std::min(from, mine.numel()), own.count), part(all, own.first, own.count), own.count);
  }
}

// mine = the sum over ranks of the received pieces, with `own` at this rank's place.
void MeshCommunicator::add_up(Tensor mine, Tensor own, std::int64_t n) {
  std::vector<const std::byte*> x;
  const std::byte* at = wires_->arrived.get();
  for (int r = 0; r < size(); ++r) {
    x.push_back(r == rank() ? own.data : at);
    if (r != rank()) at += wires_->piece;
  }
  switch (mine.dtype) {
    case DType::f32:
      return add_in_order(mine.as<float>(), x, n);
    case DType::f64:
      return add_in_order(mine.as<double>(), x, n);
    case DType::bf16:
      return add_in_order(mine.as<bf16>(), x, n);
    default:
      throw InternalError("a sum over ranks of this type");
  }
}

void MeshCommunicator::reduce_scatter(Tensor mine, Tensor all) {
  require(all.numel() == mine.numel() * size() && all.dtype == mine.dtype, "reduce_scatter: sizes");
  for (int r = 0; r < size(); ++r) ranges_[static_cast<std::size_t>(r)] = {mine.numel() * r, mine.numel()};
  sum(Collective::reduce_scatter, mine, all, ranges_);
}

// Each rank adds up its part and sends the sum to the others.
void MeshCommunicator::all_reduce(Tensor x) {
  const std::int64_t n = x.numel();
  const Tensor flat = x.view({n});
  for (int r = 0; r < size(); ++r) {
    const std::int64_t first = n * r / size();
    ranges_[static_cast<std::size_t>(r)] = {first, n * (r + 1) / size() - first};
  }
  const Range own = ranges_[static_cast<std::size_t>(rank())];
  const Tensor mine = part(flat, own.first, own.count);
  sum(Collective::all_reduce, mine, flat, ranges_);
  if (narrows(x.dtype)) return gather_narrow(Collective::all_reduce, flat, ranges_);
  clear_parcels();
  for (int r = 0; r < size(); ++r) {
    const Range theirs = ranges_[static_cast<std::size_t>(r)];
    parcel(r) = {.out = bytes(mine), .in = bytes(part(flat, theirs.first, theirs.count))};
  }
  exchange(Collective::all_reduce);
}

void MeshCommunicator::all_to_all(Tensor to, Tensor from) {
  require(to.numel() == from.numel() && to.numel() % size() == 0 && to.dtype == from.dtype,
          "all_to_all: sizes");
  const std::int64_t each = to.numel() / size();
  clear_parcels();
  for (int r = 0; r < size(); ++r)
    parcel(r) = {.out = bytes(part(from, each * r, each)), .in = bytes(part(to, each * r, each))};
  if (each > 0)
    std::memcpy(part(to, each * rank(), each).data, part(from, each * rank(), each).data,
                static_cast<std::size_t>(each * size_of(to.dtype)));
  exchange(Collective::all_to_all);
}

void MeshCommunicator::send_receive(Tensor out, int to, Tensor in, int from) {
  require((!out || to != rank()) && (!in || from != rank()), "send_receive: to oneself");
  clear_parcels();
  if (out) {
    parcel(to).sends = true;
    parcel(to).out = bytes(out);
  }
  if (in) {
    parcel(from).hears = true;
    parcel(from).in = bytes(in);
  }
  exchange(Collective::send_receive);
}

void MeshCommunicator::all_gather_host(std::span<std::byte> all) {
  const auto bytes_of_all = static_cast<std::int64_t>(all.size());
  const Tensor whole(all.data(), DType::u8, {bytes_of_all});
  all_gather(whole, part(whole, bytes_of_all / size() * rank(), bytes_of_all / size()));
}

void MeshCommunicator::broadcast(std::span<std::byte> host, int root) {
  clear_parcels();
  for (int r = 0; r < size(); ++r) {
    Parcel& p = parcel(r);
    p.sends = rank() == root;
    p.hears = r == root;
    if (p.sends) p.out = host;
    if (p.hears) p.in = host;
  }
  exchange(Collective::broadcast);
}

void MeshCommunicator::transfer(std::span<std::byte> host, int from, int to) {
  if (from == to) return;
  clear_parcels();
  if (rank() == from) parcel(to) = {.hears = false, .out = host, .in = {}};
  if (rank() == to) parcel(from) = {.sends = false, .out = {}, .in = host};
  exchange(Collective::transfer);
}

void MeshCommunicator::barrier() {
  clear_parcels();
  for (int r = 0; r < size(); ++r) parcel(r) = {};
  exchange(Collective::barrier);
}

}  // namespace ft
