// The conversation and the settings. They stay in this browser: localStorage has them, the server has nothing.
// turns: {user, answers}; an answer: {model, text, note, fault}, one for each model that was asked.
const state = { models: [], turns: [], settings: {} };
let key = sessionStorage.getItem("ft-key") || "";

function loadState() {
  try {
    const kept = JSON.parse(localStorage.getItem("ft-chat") || "{}");
    if (Array.isArray(kept.models)) state.models = kept.models;
    if (Array.isArray(kept.turns)) state.turns = kept.turns.filter(t => Array.isArray(t.answers));
    if (kept.settings) state.settings = kept.settings;
  } catch (wrong) {
    console.warn("the kept conversation cannot be read", wrong);
  }
}

function saveState() {
  try {
    localStorage.setItem("ft-chat", JSON.stringify(state));
  } catch (full) {
    console.warn("the conversation cannot be kept", full);
  }
}

function keepKey(typed) {
  key = typed;
  sessionStorage.setItem("ft-key", key);
}

// Returns the messages before the answer of a turn, as the lane's model has seen the conversation. An earlier
// turn that the lane has not answered is continued with the first lane's answer.
function messagesBefore(turn, lane) {
  const messages = [];
  if (state.settings.system) messages.push({ role: "system", content: state.settings.system });
  for (const t of state.turns.slice(0, turn)) {
    messages.push({ role: "user", content: t.user });
    const answer = t.answers[lane] || t.answers[0];
    if (answer && answer.text) messages.push({ role: "assistant", content: answer.text });
  }
  messages.push({ role: "user", content: state.turns[turn].user });
  return messages;
}
