// Model families and objectives.
#pragma once
#include "app/config/config.h"

namespace ft {

// Throws UserError (config) if the model is an encoder-decoder and the objective is not for these.
void require_family(const ObjectiveConfig&, bool encoder_decoder);

}  // namespace ft
