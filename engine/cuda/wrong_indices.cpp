#include "engine/cuda/wrong_indices.h"

#include "engine/core/error.h"
#include "engine/cuda/kernels/queue.h"

namespace ft::cuda {
namespace {

const char* words_of(Wrong w) {
  switch (w) {
    case Wrong::none:
      break;
    case Wrong::position:
      return "rope: a position beyond the table";
    case Wrong::id:
      return "embedding: an id beyond the table";
    case Wrong::gathered_row:
      return "gather_rows: a row beyond x";
    case Wrong::scattered_row:
      return "scatter_rows: a row beyond y";
    case Wrong::column:
      return "gather_columns: a column beyond x";
    case Wrong::element:
      return "scatter_elements: a place beyond the matrix";
    case Wrong::target:
      return "cross_entropy: a target beyond the classes";
    case Wrong::key:
      return "attention_ranges: keys that are not there";
    case Wrong::expert:
      return "route_grad, group_rows: an expert beyond their number";
  }
  return "an index beyond its range";
}

}  // namespace

WrongIndices::WrongIndices(Gpu& gpu, std::int32_t* flags) : gpu_(gpu), flags_(flags) { clear(); }

void WrongIndices::clear() {
  constexpr std::array<std::int32_t, kPlaces> kNone{};
  gpu_.upload(flags_, kNone.data(), kBytes);
}

std::int32_t* WrongIndices::flag_of(std::string_view op, std::string_view where) {
  std::size_t i = 0;
  while (i < kPlaces && !places_[i].op.empty() && places_[i].op != op) ++i;
  require(i < kPlaces, "more operations with indices than there are flags");
  Place& place = places_[i];
  place.op = op;
  if (place.where.empty()) place.where = where;
  place.more |= place.where != where;
  return flags_ + i;
}

void WrongIndices::refuse() {
  std::array<std::int32_t, kPlaces> found{};
  gpu_.download(found.data(), flags_, kBytes);
  std::string what;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    Place& place = places_[i];
    if (found[i] != 0 && what.empty()) {
      what = words_of(static_cast<Wrong>(found[i]));
      if (!place.where.empty()) what += str(", in ", place.where, place.more ? " or a later module" : "");
    }
    place.where.clear();
    place.more = false;
  }
  if (what.empty()) return;
  clear();
  require(false, what.c_str());
}

}  // namespace ft::cuda
