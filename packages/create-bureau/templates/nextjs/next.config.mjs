export default {
  serverExternalPackages: ['@bureau/framework', '@bureau/server'],
  // Without it, Next.js would take the slash off the address of the console, which the server puts back.
  skipTrailingSlashRedirect: true,
  // In development Next.js takes localhost alone for this machine: at 127.0.0.1, which is the same, the page would do nothing.
  allowedDevOrigins: ['127.0.0.1'],
  // Without it, a lock file in a folder above would make that folder the project.
  turbopack: { root: import.meta.dirname },
}
