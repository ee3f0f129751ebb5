/** The shapes of answers, as the service's OpenAPI document says them: `npm run types`. */
export {};
