#include "app/assembly/family.h"

#include <vector>

#include "engine/core/error.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

// Returns "a, b and c": the objectives that encoder-decoders have.
std::string of_encoder_decoders() {
  std::vector<const char*> names;
  for (const ObjectiveKind* kind : ObjectiveKind::all())
    if (kind->encoder_decoder) names.push_back(kind->name);
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all += str(i == 0 ? "" : i + 1 < names.size() ? ", " : " and ", names[i]);
  return all;
}

}  // namespace

void require_family(const ObjectiveConfig& c, bool encoder_decoder) {
  if (encoder_decoder && !c.type->encoder_decoder)
    throw UserError(Exit::config, str("objective.type: ", name_of(c.type),
                                      " is not for encoder-decoders, which have ", of_encoder_decoders()));
}

}  // namespace ft
