// Adapters of kinds that are not trained: they change the base's weights while these are read.
#pragma once
#include <string>

#include "app/assembly/built_model.h"

namespace ft {

// Folds the adapter into the model's weights; the model has no adapter then. coded: the form of weights that
// the model's files hold in codes, such as "in 4 bits"; empty: they hold none. Throws UserError (input) if
// they hold some, or if the adapter does not fit the model.
void fold_adapter(BuiltModel&, const std::string& adapter, const std::string& coded);

}  // namespace ft
