package provider

import "fmt"

// Settings that choose and configure providers. An empty or absent variable means the offline default.
const (
	SpeechURL      = "FLEET_SPEECH_URL"        // base of an OpenAI-compatible API, for example https://api.openai.com/v1
	SpeechKey      = "FLEET_SPEECH_API_KEY"    // bearer token for it; may be empty for a server of one's own
	SpeechModel    = "FLEET_SPEECH_MODEL"      // DefaultSpeechModel
	AnthropicKey   = "FLEET_ANTHROPIC_API_KEY" // turns on vision and language
	AnthropicURL   = "FLEET_ANTHROPIC_URL"     // another address of the same API, for example a gateway
	AnthropicModel = "FLEET_ANTHROPIC_MODEL"   // DefaultAnthropicModel
)

// Variables lists every setting of this package, for those who must know all names.
func Variables() []string {
	return []string{SpeechURL, SpeechKey, SpeechModel, AnthropicKey, AnthropicURL, AnthropicModel}
}

// ChooseLanguage returns the language model that the environment asks for.
func ChooseLanguage(getenv func(string) string) (Language, error) {
	if getenv(AnthropicKey) == "" {
		return Declining{}, nil
	}
	return nil, fmt.Errorf("not built yet")
}
