// Gemma 4's text models: heads of two widths, norms on both sides, values with a norm; in the small models
// layers that use the keys and values of earlier ones, and inputs for each layer; in a mixture experts beside
// each MLP.
#pragma once
#include "models/family.h"

namespace ft::gemma4 {

extern const Family kFamily, kNested;  // the text model alone; inside a model with images

}  // namespace ft::gemma4
