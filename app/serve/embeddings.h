// A server of embeddings: POST /v1/embeddings, as in OpenAI's API.
#pragma once
#include "app/serve/serve.h"

namespace ft {

// True if the model, or one of its adapters, embeds texts.
bool embeds_texts(const ServeArgs&);

// Answers until a signal. Throws UserError (config) for options that embeddings do not have.
Exit serve_embeddings(const ServeArgs&);

}  // namespace ft
