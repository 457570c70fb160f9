package provider

// Settings that choose and configure providers. An empty or absent variable means the default.
const (
	SpeechURL      = "FLEET_SPEECH_URL"        // base of an OpenAI-compatible API, for example https://api.openai.com/v1; default: pocketsphinx
	SpeechKey      = "FLEET_SPEECH_API_KEY"    // bearer token for it; a server of one's own may need none
	SpeechModel    = "FLEET_SPEECH_MODEL"      // default: DefaultSpeechModel
	AnthropicKey   = "FLEET_ANTHROPIC_API_KEY" // turns on vision and language; default: both decline
	AnthropicURL   = "FLEET_ANTHROPIC_URL"     // another address that speaks the same API, for example a gateway
	AnthropicModel = "FLEET_ANTHROPIC_MODEL"   // default: DefaultAnthropicModel
)

// Variables lists every setting of this package, for those who must know all names.
func Variables() []string {
	return []string{SpeechURL, SpeechKey, SpeechModel, AnthropicKey, AnthropicURL, AnthropicModel}
}

// ChooseSpeech returns the recogniser that the environment asks for.
func ChooseSpeech(getenv func(string) string) (Speech, error) {
	if getenv(SpeechURL) == "" {
		return Pocketsphinx{}, nil
	}
	return NewOpenAISpeech(getenv(SpeechURL), getenv(SpeechKey), getenv(SpeechModel))
}

// ChooseLanguage returns the language model that the environment asks for.
func ChooseLanguage(getenv func(string) string) (Language, error) {
	if getenv(AnthropicKey) == "" {
		return Declining{}, nil
	}
	return NewAnthropic(getenv(AnthropicKey), getenv(AnthropicURL), getenv(AnthropicModel))
}

// ChooseVision returns the vision model that the environment asks for.
func ChooseVision(getenv func(string) string) (Vision, error) {
	if getenv(AnthropicKey) == "" {
		return Declining{}, nil
	}
	return NewAnthropic(getenv(AnthropicKey), getenv(AnthropicURL), getenv(AnthropicModel))
}
