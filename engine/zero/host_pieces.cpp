#include "engine/zero/host_pieces.h"

#include <algorithm>

#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements

}  // namespace

HostPieces::HostPieces(Ops& ops) : ops_(ops), direct_(ops.device().kind == Device::Kind::cpu) {}

void HostPieces::reserve(const Tensor& x) {
  if (direct_ || x.numel() == 0) return;
  staging_.reserve(static_cast<std::size_t>(x.elements(0, std::min(kPiece, x.numel())).bytes()));
}

void HostPieces::out_of(const Tensor& x, const VisitPiece& visit) {
  each(x, [&](const Tensor& piece, std::int64_t first, const Tensor& part) {
    if (!direct_) ops_.download(piece.data, part);
    visit(piece, first);
  });
}

void HostPieces::copy_to(std::byte* host, const Tensor& x) {
  if (direct_)
    ops_.copy({host, x.dtype, x.shape}, x);  // on all threads
  else
    ops_.download(host, x);
}

void HostPieces::into(const Tensor& x, const VisitPiece& fill) {
  each(x, [&](const Tensor& piece, std::int64_t first, const Tensor& part) {
    fill(piece, first);
    if (!direct_) ops_.upload(part, piece.data);
  });
}

void HostPieces::each(const Tensor& x,
                      const std::function<void(const Tensor&, std::int64_t, const Tensor&)>& visit) {
  if (direct_) return visit(x, 0, x);
  for (std::int64_t first = 0; first < x.numel(); first += kPiece) {
    const Tensor part = x.elements(first, std::min(kPiece, x.numel() - first));
    staging_.resize(static_cast<std::size_t>(part.bytes()));
    visit({staging_.data(), part.dtype, part.shape}, first, part);
  }
}

}  // namespace ft
